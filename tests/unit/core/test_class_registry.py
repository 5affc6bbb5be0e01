"""Names of classes that plugins may add to."""

import pytest

from runtime.core.class_registry import ClassRegistry
from runtime.core.errors import ConfigError


@pytest.fixture
def registry():
    return ClassRegistry("number", int, {"flag": "builtins:bool"})


def test_a_class_is_imported_when_it_is_used(registry):
    registry.register("later", "no_such_module:Number")
    registry.register("later", "no_such_module:Number")
    assert registry.names() == ["flag", "later"]
    assert registry.load("flag") is bool
    with pytest.raises(ConfigError, match="cannot be imported"):
        registry.load("later")


@pytest.mark.parametrize(
    ("name", "qualified", "words"),
    [("flag", "a:B", "twice"), ("x", "a.B", "must be"), ("x", ":B", "must be")],
)
def test_wrong_registrations_are_refused(registry, name, qualified, words):
    with pytest.raises(ValueError, match=words):
        registry.register(name, qualified)


def test_what_is_of_another_kind_is_refused(registry):
    registry.register("text", "builtins:str")
    with pytest.raises(ConfigError, match="builtins:str is no int"):
        registry.load("text")
    with pytest.raises(ConfigError, match="known: flag, text"):
        registry.load("absent")
