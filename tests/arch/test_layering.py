"""Dependencies point one way: plugins ◄── core ◄── platforms/<device>."""

import ast
import re

import pytest

OURS = ("runtime", "core", "plugins", "platforms")
MODULE_NAME = re.compile(r"runtime(?:\.\w+)+(?=$|:\w+$)")


def imported(tree):
    """Modules that a file imports, wherever it does, with names that may be modules too.

    Relative imports keep their dots.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield base
            if base == "runtime":
                yield from (f"runtime.{alias.name}" for alias in node.names)


def named(tree):
    """Modules of ours that a file names in strings, to have them imported later."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = MODULE_NAME.match(node.value)
            if match:
                yield match.group()


def within(module, *roots):
    return any(module == root or module.startswith(root + ".") for root in roots)


def outside(source, *allowed):
    """What a file imports or names of ours, and may not."""
    modules = {*imported(source.tree), *named(source.tree)}
    groups = {f"runtime.{kind}_plugins" for kind in ("platform", "general", "hardware", "server")}
    return sorted(
        f"{source.name} → {module}"
        for module in modules - groups
        if within(module, "runtime") and not within(module, *allowed)
    )


def test_what_is_imported_is_found():
    code = (
        "import runtime.core.a\nfrom runtime import plugins\nfrom . import x\n"
        "def f():\n    from core.b import c\n    load('runtime.platforms.d:E')\n"
    )
    tree = ast.parse(code)
    assert set(imported(tree)) == {"runtime.core.a", "runtime", "runtime.plugins", ".", "core.b"}
    assert set(named(tree)) == {"runtime.platforms.d"}


def test_plugins_import_nothing_of_ours(sources):
    found = [line for source in sources("plugins") for line in outside(source, "runtime.plugins")]
    assert found == []


def test_the_core_imports_no_platform(sources):
    found = [
        line
        for source in sources("core")
        for line in outside(source, "runtime.core", "runtime.plugins")
    ]
    assert found == []


SHARED = ("runtime.platforms.shared", "runtime.platforms.triton")
"""What several platforms have in common: no platforms by themselves."""


def test_a_platform_imports_the_core_itself_and_what_is_shared(sources, root):
    folders = [path for path in (root / "platforms").iterdir() if (path / "__init__.py").exists()]
    assert folders
    found = [
        line
        for folder in folders
        for source in sources(f"platforms/{folder.name}")
        for line in outside(
            source, "runtime.core", "runtime.plugins", *SHARED, f"runtime.platforms.{folder.name}"
        )
    ]
    assert found == []


def test_kernels_import_nothing_of_ours(sources, root):
    found = [
        line
        for folder in root.glob("kernels_*")
        if any(folder.rglob("*.py"))
        for source in sources(folder.name)
        for line in outside(source)
    ]
    assert found == []


@pytest.mark.parametrize("folder", ["core", "plugins", "platforms", "runtime", "tests"])
def test_imports_are_absolute_and_by_the_full_name(sources, folder):
    found = [
        f"{source.name} → {module}"
        for source in sources(folder)
        for module in imported(source.tree)
        if module.startswith(".") or within(module, *OURS[1:])
    ]
    assert found == []
