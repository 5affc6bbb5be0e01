"""Every hook is documented with its exact signature, and tested."""

import ast

import pytest

from runtime.plugins import groups, hookspecs
from runtime.plugins.loading import hook_signature

HOOKS = sorted(name for name, it in vars(hookspecs).items() if hasattr(it, "runtime_spec"))


def test_there_is_a_hook_for_each_group():
    assert sorted(groups.HOOK_OF_GROUP.values()) == HOOKS


def test_the_specifications_fit_one_screen(root):
    assert len((root / "plugins" / "hookspecs.py").read_text().splitlines()) <= 60


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_has_a_section_with_its_exact_signature(root, hook):
    lines = (root / "docs" / "hooks.md").read_text().splitlines()
    assert f"## `{hook_signature(hook)}`" in lines


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_is_tested(sources, hook):
    tests = {
        node.name
        for source in sources("tests/unit/plugins")
        for node in source.tree.body
        if isinstance(node, ast.FunctionDef)
    }
    assert any(name.startswith(f"test_{hook}_") for name in tests)
