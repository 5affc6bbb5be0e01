"""A plugin that uses what will go is warned of, one that uses what has gone is refused."""

import logging
import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from runtime.plugins import hookspecs
from runtime.plugins.deprecations import Deprecation
from runtime.plugins.groups import GENERAL_GROUP
from runtime.plugins.hookspecs import PLUGIN_API_VERSION, hookimpl
from runtime.plugins.manager import PluginManager
from runtime.plugins.records import PluginState

MAJOR, MINOR = PLUGIN_API_VERSION
NOW, NEXT = PLUGIN_API_VERSION, (MAJOR, MINOR + 1)


@pytest.fixture
def load(monkeypatch):
    """Load one plugin module with a table of deprecations: ``load(module, *table) -> record``."""

    def run(module, *table):
        monkeypatch.setitem(sys.modules, "acme_deprecated", module)
        point = EntryPoint("acme", "acme_deprecated", GENERAL_GROUP)
        manager = PluginManager({}, [point], deprecations=table)
        manager.load_general()
        manager.load_general()
        return manager.records[0]

    return run


@pytest.fixture
def module():
    """A general plugin that sets the attribute ``runtime_plugin_priority``."""
    made = ModuleType("acme_deprecated")
    made.runtime_register = hookimpl(lambda: None)
    made.runtime_plugin_priority = 3
    return made


def test_an_attribute_that_will_go_is_one_warning(load, module, caplog):
    entry = Deprecation("runtime_plugin_priority", NOW, NEXT, "set runtime_plugin_before")
    assert load(module, entry).state is PluginState.LOADED
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert line == (
        "plugin 'acme' of unknown ? uses runtime_plugin_priority, deprecated since plugin API "
        f"{MAJOR}.{MINOR} and removed in {MAJOR}.{MINOR + 1}: set runtime_plugin_before"
    )


def test_a_hook_that_will_go_is_warned_of_and_still_called(load, module, caplog):
    called = []
    module.runtime_register = hookimpl(lambda: called.append(1))
    record = load(module, Deprecation("runtime_register", NOW, NEXT, "implement runtime_enroll"))
    assert called == [1]
    assert record.state is PluginState.LOADED
    assert "implement runtime_enroll" in caplog.text


def test_what_has_gone_is_refused_with_the_remedy(load, module):
    entry = Deprecation("runtime_plugin_priority", (MAJOR - 1, 9), NOW, "set runtime_plugin_before")
    record = load(module, entry)
    assert record.state is PluginState.FAILED
    assert record.reason == (
        f"uses runtime_plugin_priority, removed in plugin API {MAJOR}.{MINOR}: "
        "set runtime_plugin_before"
    )


def test_what_is_not_used_or_not_yet_deprecated_says_nothing(load, module, caplog):
    later = Deprecation("runtime_plugin_priority", NEXT, (MAJOR, MINOR + 2), "nothing")
    other = Deprecation("runtime_platform", NOW, NEXT, "nothing")
    assert load(module, later, other).state is PluginState.LOADED
    assert caplog.text == ""


def test_a_removal_without_a_release_that_warns_cannot_be_declared():
    with pytest.raises(ValueError, match=r"x: removed in \(1, 2\), warned of \(1, 2\)"):
        Deprecation("x", (1, 2), (1, 2), "nothing")


def test_every_hook_begins_with_the_prefix_that_is_looked_for():
    hooks = [name for name, it in vars(hookspecs).items() if hasattr(it, "runtime_spec")]
    assert hooks
    assert all(name.startswith("runtime_") for name in hooks)
