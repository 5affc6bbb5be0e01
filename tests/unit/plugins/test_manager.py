"""VLLM_PLUGINS, names that clash, and failing plugins that were named or merely found."""

from runtime.plugins.manager import parse_filter

LOAD_TWICE = """
from runtime.plugins.errors import PluginError
from runtime.plugins.manager import default_manager

for _ in range(2):
    try:
        default_manager().load_general()
        print("loaded")
    except PluginError as error:
        print("error:", error)
"""


def test_parse_filter():
    assert parse_filter({}) is None
    assert parse_filter({"VLLM_PLUGINS": ""}) == ()
    assert parse_filter({"VLLM_PLUGINS": " a ,, b,"}) == ("a", "b")


def test_unset_means_every_installed_plugin(site):
    site.install_platform("left", 20)
    site.install_platform("right", 30)
    site.install_general("models")
    assert site.plugins().states == {
        "cpu": "available",
        "null": "available",
        "left": "available",
        "right": "selected",
        "models": "available",
    }


def test_empty_means_none_that_is_out_of_tree(site):
    site.install_platform("left")
    site.install_general("models")
    listing = site.plugins(VLLM_PLUGINS=" , ")
    assert listing.states == {
        "cpu": "selected",
        "null": "available",
        "left": "filtered",
        "models": "filtered",
    }
    assert listing["left"]["reason"] == "not named in VLLM_PLUGINS"
    assert site.events() == []


def test_a_named_model_plugin_leaves_an_unnamed_platform_unimported(site):
    site.install_platform("left")
    site.install_general("models")
    listing = site.plugins(VLLM_PLUGINS="models")
    assert listing.states == {
        "cpu": "selected",
        "null": "available",
        "left": "filtered",
        "models": "available",
    }
    assert site.events() == ["import acme_models", "register"]


def test_names_may_be_surrounded_by_blanks(site):
    site.install_platform("left")
    site.install_general("models")
    site.install_general("others")
    listing = site.plugins(VLLM_PLUGINS=" left,, models , ")
    assert listing.states == {
        "cpu": "filtered",
        "null": "filtered",
        "left": "selected",
        "models": "available",
        "others": "filtered",
    }


def test_a_built_in_platform_can_be_named(site):
    site.install_platform("left")
    listing = site.plugins(VLLM_PLUGINS="cpu")
    assert listing.states == {"cpu": "selected", "null": "filtered", "left": "filtered"}
    assert site.events() == []


def test_a_name_that_nothing_has_is_an_error_that_lists_the_installed(site):
    site.install_platform("left")
    site.install_general("models")
    listing = site.plugins(VLLM_PLUGINS="models,rigth")
    assert listing.error == (
        "runtime: error: VLLM_PLUGINS names 'rigth', which no installed plugin has "
        "(installed: cpu, cuda, hardware, left, models, null)"
    )


def test_generating_refuses_an_unknown_name_before_it_looks_at_the_model(site):
    done = site.run("generate", "--model", "nowhere", "--prompt", "x", VLLM_PLUGINS="rigth")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "runtime: error: VLLM_PLUGINS names 'rigth', which no installed plugin has "
        "(installed: cpu, cuda, hardware, null)"
    )


def test_a_plugin_that_was_merely_found_and_fails_is_one_warning(site):
    site.install_general("models", "raise RuntimeError('broken') from OSError('no libacme.so')")
    listing = site.plugins()
    assert listing.done.returncode == 0
    (warning,) = listing.warnings
    assert warning.endswith(
        "plugin 'models' of acme-models 1.2 failed: RuntimeError: broken "
        "(caused by OSError: no libacme.so); going on without it"
    )


def test_a_plugin_that_was_named_and_fails_is_an_error(site):
    site.install_general("models", "raise RuntimeError('broken')")
    listing = site.plugins(VLLM_PLUGINS="models")
    assert listing.states["models"] == "failed"
    assert listing.error == (
        "runtime: error: plugin 'models' of acme-models 1.2 failed: RuntimeError: broken"
    )
    assert not listing.warnings


def test_general_plugins_are_called_once_a_process(site):
    site.install_general("models")
    assert site.python("-c", LOAD_TWICE).stdout == "loaded\nloaded\n"
    assert site.events() == ["import acme_models", "register"]


def test_a_named_plugin_that_fails_does_so_for_every_engine(site):
    site.install_general("models", "note('register'); raise RuntimeError('broken')")
    line = "error: plugin 'models' of acme-models 1.2 failed: RuntimeError: broken\n"
    assert site.python("-c", LOAD_TWICE, VLLM_PLUGINS="models").stdout == 2 * line
    assert site.events() == ["import acme_models", "register"]


def test_two_plugins_with_one_name_are_both_refused_unimported(site):
    site.install_platform("left", 40, distribution="acme-first")
    site.install_platform("left", 50, distribution="acme-second")
    listing = site.plugins()
    assert listing.selected == ["cpu"]
    assert [row["state"] for row in listing.rows if row["name"] == "left"] == ["failed", "failed"]
    assert len(listing.warnings) == 2
    for warning in listing.warnings:
        assert "acme_first:register (acme-first 1.2)" in warning
        assert "acme_second:register (acme-second 1.2)" in warning
        assert "uninstall one of them" in warning
    assert site.events() == []


def test_two_plugins_with_one_name_that_is_named_are_an_error(site):
    site.install_platform("left", distribution="acme-first")
    site.install_platform("left", distribution="acme-second")
    listing = site.plugins(VLLM_PLUGINS="left")
    assert "its name is taken twice" in listing.error
    assert "acme-first 1.2" in listing.error
    assert "acme-second 1.2" in listing.error


def test_clashing_plugins_that_are_filtered_are_not_warned_of(site):
    site.install_platform("left", distribution="acme-first")
    site.install_platform("left", distribution="acme-second")
    listing = site.plugins(VLLM_PLUGINS="")
    assert [row["state"] for row in listing.rows if row["name"] == "left"] == 2 * ["filtered"]
    assert not listing.warnings


def test_the_name_of_a_built_in_platform_cannot_be_taken(site):
    site.install_platform("cpu", 90, distribution="acme-impostor")
    listing = site.plugins()
    states = {row["distribution"]: row["state"] for row in listing.rows if row["name"] == "cpu"}
    assert states == {"runtime": "selected", "acme-impostor": "failed"}
    (warning,) = listing.warnings
    assert "acme_impostor:register (acme-impostor 1.2)" in warning
    assert "runtime.platforms.cpu:register (runtime " in warning
    assert site.events() == []


def test_one_name_may_be_used_in_both_groups(site):
    site.install_platform("left")
    site.install(
        "acme-models", "def register():\n    pass\n", general={"left": "acme_models:register"}
    )
    listing = site.plugins(VLLM_PLUGINS="left")
    assert [row["state"] for row in listing.rows if row["name"] == "left"] == [
        "selected",
        "available",
    ]
