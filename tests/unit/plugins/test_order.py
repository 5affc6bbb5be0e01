"""The order in which general plugins register."""

import pytest

from runtime.plugins.errors import PluginError
from runtime.plugins.order import Wishes, in_order

LOAD = """
from runtime.plugins.manager import default_manager

default_manager().load_general()
"""


def test_by_name_where_nothing_is_asked():
    assert in_order({"b": Wishes(), "a": Wishes(), "c": Wishes()}) == ["a", "b", "c"]


def test_wishes_go_before_names():
    wishes = {"a": Wishes(after=("c",)), "b": Wishes(), "c": Wishes(), "d": Wishes(before=("b",))}
    assert in_order(wishes) == ["c", "a", "d", "b"]


def test_unknown_names_are_ignored():
    assert in_order({"a": Wishes(before=("x",), after=("y",)), "b": Wishes()}) == ["a", "b"]


@pytest.mark.parametrize(
    "wishes",
    [
        {"a": Wishes(before=("a",))},
        {"a": Wishes(before=("b",)), "b": Wishes(before=("a",))},
        {"a": Wishes(after=("c",)), "b": Wishes(after=("a",)), "c": Wishes(after=("b",))},
    ],
)
def test_a_circle_is_an_error_that_goes_round_it(wishes):
    with pytest.raises(PluginError) as caught:
        in_order(wishes)
    message = str(caught.value)
    assert message.startswith("general plugins ask to register in a circle: '")
    circle = message.split(": ")[1].split(" (")[0].split(" before ")
    assert circle[0] == circle[-1]
    assert {name.strip("'") for name in circle} == set(wishes)


def install(site, name, head="", body=""):
    source = f"{head}\ndef register():\n    note('register {name}')\n{body}"
    site.install(f"acme-{name}", source, general={name: f"acme_{name}:register"})


def test_plugins_register_in_the_order_they_ask_for(site):
    install(site, "a", "runtime_plugin_after = ('c', 'not-installed')")
    install(site, "b")
    install(site, "c", body="register.runtime_plugin_after = 'b'")
    done = site.python("-c", LOAD)
    assert done.returncode == 0, done.stderr
    registered = [event for event in site.events() if event.startswith("register")]
    assert registered == ["register b", "register c", "register a"]


def test_a_circle_of_plugins_ends_in_one_line(site):
    install(site, "a", "runtime_plugin_before = ['b']")
    install(site, "b", "runtime_plugin_before = ['a']")
    done = site.run("generate", "nowhere", "--prompt", "x")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("runtime: error: general plugins ask to register in a circle: ")
    assert "leave one out by VLLM_PLUGINS" in line
    assert "in a circle" in site.plugins().error
    assert site.run("generate", "nowhere", "--prompt", "x", VLLM_PLUGINS="a").stderr != done.stderr


def test_a_wish_that_is_no_name_is_refused(site):
    install(site, "a", "runtime_plugin_before = 7")
    assert site.plugins()["a"]["reason"] == (
        "runtime_plugin_before=7 must be a plugin's name or a tuple of names"
    )
