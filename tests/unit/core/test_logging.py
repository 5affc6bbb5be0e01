"""Log lines of plugins appear by themselves, each once."""

import re

import pytest

LINES = """
import logging

logger = logging.getLogger(__name__)
logger.info("importing")

def register():
    logger.info("registering")
    logger.debug("details")
"""


def lines_of(done):
    """Log lines without their time."""
    return [re.sub(r"\d\d:\d\d:\d\d ", "", line) for line in done.stderr.splitlines()]


def install(site, name, source=LINES):
    site.install(f"acme-{name}", source, general={name: f"acme_{name}:register"})


def test_a_plugins_lines_appear_once_with_its_package(site):
    install(site, "models")
    assert lines_of(site.run("plugins")) == [
        "INFO [acme_models] importing",
        "INFO [acme_models] registering",
    ]


@pytest.mark.parametrize(("level", "count"), [("debug", 3), ("INFO", 2), (" ", 2), ("WARNING", 0)])
def test_the_level_applies_to_plugins_too(site, level, count):
    install(site, "models")
    lines = lines_of(site.run("plugins", VLLM_LOGGING_LEVEL=level))
    assert len([line for line in lines if "[acme_models]" in line]) == count


def test_a_package_inside_another_and_a_platforms_own_package_are_shown(site):
    inner = site.folder / "acme_deep" / "inner"
    inner.mkdir(parents=True)
    (inner / "plugin.py").write_text(LINES)
    platform = "from runtime.core.platform.interface import Platform\n" + LINES
    site.module("acme_device", platform)
    site.install(
        "acme-start",
        "def register():\n    return 'acme_device:Missing'\n",
        platforms={"start": "acme_start:register"},
        general={"deep": "acme_deep.inner.plugin:register"},
    )
    lines = lines_of(site.run("plugins"))
    assert "INFO [acme_device] importing" in lines
    assert "INFO [acme_deep] registering" in lines


def test_a_plugin_with_a_handler_of_its_own_keeps_it_alone(site):
    own = "import logging\nlogging.getLogger(__name__).addHandler(logging.StreamHandler())\n"
    install(site, "models", own + LINES)
    assert site.run("plugins").stderr.splitlines() == ["importing", "registering"]


def test_a_plugin_that_sets_up_the_root_logger_is_not_shown_twice(site):
    install(site, "models", "import logging\nlogging.basicConfig(level=0)\n" + LINES)
    lines = site.run("plugins").stderr.splitlines()
    assert len([line for line in lines if "registering" in line]) == 1


def test_a_library_leaves_logging_to_the_application(site):
    install(site, "models")
    code = (
        "import logging\n"
        "from runtime.plugins.manager import default_manager\n"
        "default_manager().load_general()\n"
        "print(logging.getLogger('runtime').handlers, logging.getLogger('acme_models').handlers)\n"
    )
    done = site.python("-c", code)
    assert (done.stdout, done.stderr) == ("[] []\n", "")
