"""Hardware that nobody serves is named where users look, and not otherwise."""

import json

HARDWARE = """
from runtime.plugins.hardware import Hardware

def register():
    return [Hardware("acme-card", "an Acme card", "/dev/acme0", "acme", "install acme-runtime")]
"""
LINE = "found an Acme card (/dev/acme0) that no installed platform serves; install acme-runtime"
SELECT = """
import sys
from runtime.core.logging import set_up_logging
from runtime.core.platform.select import select_platform

set_up_logging()
select_platform(*sys.argv[1:])
"""


def install_hardware(site, source=HARDWARE):
    site.install("acme-hardware", source, hardware={"acme-hardware": "acme_hardware:register"})


def shown(site, **environment):
    """What ``collect-env`` lists, without what the tests' own machine has."""
    done = site.run("collect-env", "--json", **environment)
    return [line for line in json.loads(done.stdout)["hardware"] if "Acme" in line]


def test_it_is_named_in_the_listing_the_report_and_once_at_start_up(site):
    install_hardware(site)
    assert LINE in site.run("plugins").stdout.splitlines()
    assert site.plugins()["acme-hardware"]["reason"] == LINE
    assert LINE in site.run("collect-env").stdout.splitlines()
    lines = site.python("-c", SELECT).stderr.splitlines()
    (line,) = [line for line in lines if LINE in line]
    assert line.startswith("INFO ")


def test_it_is_not_named_at_start_up_where_a_platform_was(site):
    install_hardware(site)
    assert site.python("-c", SELECT, "cpu").stderr == ""


def test_an_installed_platform_of_its_name_speaks_for_itself(site):
    install_hardware(site)
    site.install_platform("acme", probe="return ProbeResult.no('driver too old')")
    assert shown(site) == []
    assert "acme: driver too old" in site.run("plugins").stdout


def test_a_platform_that_serves_its_kind_counts_while_it_can_run(site):
    install_hardware(site)
    site.install_platform("left", probe="return ProbeResult(5, 'ready')")
    path = site.folder / "acme_left.py"
    text = path.read_text().replace("device_type =", "serves = ('acme-card',)\n    device_type =")
    path.write_text(text)
    assert shown(site) == []
    path.write_text(text.replace("ProbeResult(5, 'ready')", "ProbeResult.no('too old')"))
    assert shown(site) == [LINE]


def test_it_is_named_where_nothing_fits(site):
    install_hardware(site)
    site.install_platform("left", 0)
    error = site.plugins(VLLM_PLUGINS="left,acme-hardware").error
    assert error.endswith(f"or install one. {LINE}")


def test_a_filtered_plugin_is_not_asked(site):
    install_hardware(site)
    assert shown(site, VLLM_PLUGINS="") == []
    assert site.events() == []


def test_an_answer_that_is_none_is_a_failed_plugin(site):
    install_hardware(site, "def register():\n    return ['an Acme card']\n")
    listing = site.plugins()
    assert listing["acme-hardware"]["state"] == "failed"
    assert listing["acme-hardware"]["reason"] == (
        "returned ['an Acme card'] where a list of Hardware is expected"
    )
    assert listing.selected == ["cpu"]
    (warning,) = listing.warnings
    assert "plugin 'acme-hardware' of acme-hardware 1.2 failed: returned" in warning
