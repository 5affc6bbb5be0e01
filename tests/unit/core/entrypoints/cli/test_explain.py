"""``runtime plugins --explain NAME``."""

import re


def explained(site, name, *words, **environment):
    """The story as a mapping, and the whole output."""
    done = site.run("plugins", "--explain", name, *words, **environment)
    assert done.returncode == 0, done.stderr
    pairs = [re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in done.stdout.splitlines()]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}, done.stdout


WORKING = """
from runtime.core.platform.interface import KernelLibrary, Platform, PlatformCapabilities
from runtime.core.platform.interface import ProbeResult

runtime_plugin_api = "1.0"

class Device(Platform):
    name = "left"
    device_type = "cpu"
    serves = ("acme-card",)
    devices = memory = None
    capabilities = PlatformCapabilities(dtypes=("bfloat16",), max_head_size=128)
    environment = {"ACME_LEVEL": "how hard it tries", "ACME_URL": "where it is"}
    kernel_libraries = [KernelLibrary("acme-kernels", "2.11", None)]

    @classmethod
    def probe(cls):
        return ProbeResult(0, "ready")

def register():
    return __name__ + ":Device"
"""


def test_a_platform_in_working_order_tells_all(site):
    site.install("acme-left", WORKING, platforms={"left": "acme_left:register"})
    story, _ = explained(site, "left", ACME_URL="http://me:pw@host")
    assert story["plugin"] == "left (runtime.platform_plugins)"
    assert (story["state"], story["reason"]) == ("available", "ready")
    assert story["distribution"] == f"acme-left 1.2 in {site.folder}"
    assert story["entry point"] == "left = acme_left:register"
    assert story["wanted"] == "by default: VLLM_PLUGINS is not set"
    assert story["file"] == str(site.folder / "acme_left.py")
    assert story["plugin API"] == "1.0 (this runtime: 1.0)"
    assert story["hooks"] == "runtime_platform"
    assert story["class"] == "acme_left:Device"
    assert story["score"] == "0 (by name only)"
    assert story["serves"] == "left, acme-card"
    assert story["dtypes"] == "('bfloat16',)"
    assert story["max_head_size"] == "128"
    assert story["$ACME_LEVEL"] == "not set; how hard it tries"
    assert story["$ACME_URL"] == "'http://(hidden)@host'; where it is"
    assert story["kernels"] == "acme-kernels: built for torch 2.11, found missing"


def test_a_platform_whose_probe_raises_shows_its_traceback(site):
    site.install_platform("left", probe="raise RuntimeError('old') from OSError('no libacme.so')")
    story, text = explained(site, "left")
    assert story["state"] == "failed"
    assert story["reason"] == "RuntimeError: old (caused by OSError: no libacme.so)"
    assert "class" not in story
    assert re.search(r'File ".*acme_left\.py", line \d+, in probe', text)
    assert text.index("OSError: no libacme.so\n") < text.rindex("RuntimeError: old")


def test_a_platform_that_cannot_run_here_says_why(site):
    site.install_platform("left", probe="return ProbeResult.no('no device file')")
    story, _ = explained(site, "left")
    assert story["reason"] == "no device file"
    assert story["score"] == "none: it cannot run here"
    assert "dtypes" not in story


def test_a_filtered_plugin_is_told_without_importing_it(site):
    site.install_general("models")
    story, _ = explained(site, "models", VLLM_PLUGINS="cpu")
    assert story["wanted"] == "no: VLLM_PLUGINS='cpu' does not name it; it was not imported"
    assert story["imported"] == "no"
    assert site.events() == []


def test_a_general_plugin_tells_its_order(site):
    source = "runtime_plugin_after = ('b', 'c')\ndef register():\n    pass\n"
    site.install("acme-models", source, general={"models": "acme_models:register"})
    story, _ = explained(site, "models", VLLM_PLUGINS="models")
    assert story["wanted"] == "yes: VLLM_PLUGINS='models' names it"
    assert story["registers"] == "before -, after b, c"


def test_a_platform_whose_roles_cannot_be_had_does_not_end_the_story(site):
    site.install_platform("left")
    story, _ = explained(site, "left")
    assert story["details"].startswith("cannot be had: ")


def test_two_plugins_of_one_name_are_both_told(site):
    site.install_platform("left", distribution="acme-first")
    site.install_platform("left", distribution="acme-second")
    _, text = explained(site, "left")
    assert len(re.findall(r"^plugin +left ", text, re.M)) == 2
    assert text.count("its name is taken twice") >= 2


def test_an_unknown_name_lists_those_there_are(site):
    done = site.run("plugins", "--explain", "toaster")
    assert done.returncode == 2
    assert done.stderr == (
        "runtime: error: --explain toaster: no such plugin; installed: cpu, cuda, hardware, null\n"
    )
