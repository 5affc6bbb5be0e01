"""Backends by name."""

import pytest

from runtime.core.errors import ConfigError
from runtime.core.structured_output import registry
from runtime.core.structured_output.xgrammar_backend import XGrammarBackend


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTRY", registry._Registry())


def test_the_built_in_one_is_the_default():
    assert registry.qualified_name("auto") == registry.qualified_name("xgrammar")
    assert registry.load_backend(registry.qualified_name("auto")) is XGrammarBackend


def test_a_plugin_adds_one():
    registry.register_structured_output_backend("acme", "acme.grammars:Backend")
    registry.register_structured_output_backend("acme", "acme.grammars:Backend")
    assert registry.backend_names() == ["acme", "xgrammar"]
    assert registry.qualified_name("acme") == "acme.grammars:Backend"


@pytest.mark.parametrize(
    ("name", "backend"), [("xgrammar", "a:B"), ("auto", "a:B"), ("acme", "a.B"), ("acme", ":B")]
)
def test_a_wrong_registration_is_refused(name, backend):
    with pytest.raises(ValueError, match=r"twice|must be"):
        registry.register_structured_output_backend(name, backend)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match="known: auto, xgrammar"):
        registry.qualified_name("acme")


@pytest.mark.parametrize("qualified", ["no_such_module:X", "json:Nothing", "json:JSONDecoder"])
def test_what_is_no_backend_is_refused(qualified):
    with pytest.raises(ConfigError, match=r"cannot be imported|is not a"):
        registry.load_backend(qualified)
