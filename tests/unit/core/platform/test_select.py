"""Which platform is chosen, with real plugins in a fresh interpreter."""

import pytest

from runtime.core.errors import PlatformError
from runtime.core.platform.interface import Platform
from runtime.core.platform.select import select_platform
from runtime.platforms.null.platform import NullPlatform

SELECT = """
import sys
from runtime.core.errors import PlatformError
from runtime.core.platform.select import select_platform

for requested in sys.argv[1:]:
    try:
        print(select_platform(None if requested == "-" else requested).reason)
    except PlatformError as error:
        print("error:", error)
"""

PLATFORM_MODULE = """
from runtime.core.platform.interface import Platform, ProbeResult

class D(Platform):
    name = "slow"
    device_type = "cpu"
    capabilities = devices = memory = None

    @classmethod
    def probe(cls):
        time.sleep(0.1)
        return ProbeResult(50, "ready")
"""


@pytest.fixture
def select(site):
    """Select platforms one after the other in one fresh interpreter; ``-`` is none in particular.

    Returns one line for each.
    """

    def run(*requests, **environment):
        done = site.python("-c", SELECT, *requests, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def test_the_highest_score_wins_and_the_reason_names_the_others(site, select):
    site.install_platform("left", 20)
    site.install_platform("right", 30)
    (reason,) = select("-")
    assert reason.startswith("right: ready (chosen automatically, score 30; others: ")
    assert "left: ready" in reason
    assert "cpu: " in reason


def test_out_of_tree_beats_built_in_whatever_the_scores(site, select):
    site.install_platform("left", 1)
    assert select("-")[0].startswith("left: ready (chosen automatically, score 1;")


def test_a_score_of_nought_is_chosen_by_name_only(site, select):
    site.install_platform("left", 0)
    automatic, by_name = select("-", "left")
    assert automatic.startswith("cpu: ")
    assert by_name == "left: ready (asked for by platform)"


def test_a_platform_that_cannot_run_here_is_passed_over_with_its_reason(site, select):
    site.install_platform("left", probe="return ProbeResult.no('no device file')")
    (reason,) = select("-")
    assert reason.startswith("cpu: ")
    assert "left: no device file" in reason


def test_a_tie_is_an_error_that_says_how_to_choose(site):
    site.install_platform("left", 20)
    site.install_platform("right", 20)
    assert site.plugins().error == (
        "runtime: error: platforms 'left' (acme-left 1.2) and 'right' (acme-right 1.2) tie with "
        "score 20: choose one by --platform NAME or VLLM_TARGET_DEVICE=NAME"
    )
    assert site.plugins("--platform", "left").selected == ["left"]


def test_nothing_to_choose_is_an_error_with_each_ones_reason(site):
    site.install_platform("left", probe="return ProbeResult.no('no device file')")
    site.install_platform("right", 0)
    listing = site.plugins(VLLM_PLUGINS="left,right")
    assert listing.error == (
        "runtime: error: no platform can be chosen: left: no device file; right: ready. "
        "Name one by --platform or VLLM_TARGET_DEVICE, or install one"
    )


@pytest.mark.parametrize("by_variable", [False, True])
def test_an_explicit_choice_neither_imports_nor_probes_others(site, select, by_variable):
    site.install_platform("left", 20)
    site.install_platform("right", 30)
    site.install_platform("broken", probe="raise RuntimeError('never asked')")
    if by_variable:
        (reason,) = select("-", VLLM_TARGET_DEVICE="left")
        assert reason == "left: ready (asked for by VLLM_TARGET_DEVICE)"
    else:
        (reason,) = select("left")
        assert reason == "left: ready (asked for by platform)"
    assert site.events() == ["import acme_left", "call acme_left", "probe left"]


def test_the_argument_goes_before_the_variable(site, select):
    site.install_platform("left")
    site.install_platform("right")
    (reason,) = select("right", VLLM_TARGET_DEVICE="left")
    assert reason.startswith("right: ")


def test_a_built_in_platform_by_name_beats_one_that_would_be_detected(site, select):
    site.install_platform("left", 90)
    (reason,) = select("-", VLLM_TARGET_DEVICE="cpu")
    assert reason.startswith("cpu: ")
    assert reason.endswith("(asked for by VLLM_TARGET_DEVICE)")
    assert site.events() == []


def test_an_explicit_choice_is_strict_with_the_probes_own_reason(site, select):
    site.install_platform("left", probe="return ProbeResult.no('no device file')")
    assert select("left", "-")[0] == (
        "error: platform 'left' (asked for by platform) cannot run here: no device file"
    )
    assert select("-", VLLM_TARGET_DEVICE="left") == [
        "error: platform 'left' (asked for by VLLM_TARGET_DEVICE) cannot run here: no device file"
    ]


def test_an_explicit_choice_that_offers_nothing_says_so(site, select):
    source = "def register():\n    return None\n"
    site.install("acme-shy", source, platforms={"shy": "acme_shy:register"})
    assert select("shy") == [
        "error: platform 'shy' (asked for by platform) cannot run here: "
        "the plugin offers no platform here"
    ]


def test_a_platform_that_is_not_installed_is_an_error_that_lists_the_others(site):
    site.install_platform("left")
    done = site.run("generate", "--model", "nowhere", "--prompt", "x", "--platform", "lfet")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "runtime: error: platform 'lfet' (asked for by platform) is not installed; "
        "installed: cpu, cuda, left, null"
    )


def test_a_platform_that_is_filtered_cannot_be_asked_for(site, select):
    site.install_platform("left")
    assert select("left", VLLM_PLUGINS="") == [
        "error: platform 'left' (asked for by platform) cannot be used: not named in VLLM_PLUGINS"
    ]
    assert site.events() == []


def test_a_found_platform_whose_probe_raises_is_one_warning(site):
    site.install_platform("left", probe="raise RuntimeError('driver too old')")
    listing = site.plugins()
    assert listing.done.returncode == 0
    assert listing.selected == ["cpu"]
    assert (listing["left"]["state"], listing["left"]["score"]) == ("failed", None)
    (warning,) = listing.warnings
    assert warning.endswith(
        "plugin 'left' of acme-left 1.2 failed: RuntimeError: driver too old; going on without it"
    )


def test_a_platform_whose_function_raises_is_a_warning_or_where_named_an_error(site):
    source = "def register():\n    import a_driver_binding_that_is_not_there\n"
    site.install("acme-left", source, platforms={"left": "acme_left:register"})
    failure = (
        "plugin 'left' of acme-left 1.2 failed: ModuleNotFoundError: "
        "No module named 'a_driver_binding_that_is_not_there'"
    )
    listing = site.plugins()
    assert listing.selected == ["cpu"]
    (warning,) = listing.warnings
    assert warning.endswith(f"{failure}; going on without it")
    words = ("generate", "--model", "nowhere", "--prompt", "x")
    for choice in ({"VLLM_TARGET_DEVICE": "left"}, {"VLLM_PLUGINS": "left"}):
        done = site.run(*words, **choice)
        assert done.returncode == 2
        assert done.stderr.splitlines() == [f"runtime: error: {failure}"]


def test_a_platform_plugin_with_a_wrong_signature_is_refused(site):
    source = "def register(config):\n    return None\n"
    site.install("acme-left", source, platforms={"left": "acme_left:register"})
    assert site.plugins()["left"]["reason"] == (
        "is register(config), but is called as runtime_platform() -> str | None"
    )


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        ((), {"VLLM_PLUGINS": "left"}),
        (("--platform", "left"), {}),
        ((), {"VLLM_TARGET_DEVICE": "left"}),
    ],
)
def test_a_named_platform_whose_probe_raises_is_an_error(site, words, environment):
    site.install_platform("left", probe="raise RuntimeError('old') from OSError('no libacme.so')")
    listing = site.plugins(*words, **environment)
    assert listing.error == (
        "runtime: error: plugin 'left' of acme-left 1.2 failed: RuntimeError: old "
        "(caused by OSError: no libacme.so)"
    )
    assert not listing.warnings
    assert site.events().count("probe left") == 1


def test_a_choice_that_failed_does_not_spoil_the_next(site, select):
    site.install_platform("left", probe="raise RuntimeError('driver too old')")
    first, second, third = select("left", "-", "left")
    assert "driver too old" in first
    assert second.startswith("cpu: ")
    assert "driver too old" in third
    assert site.events().count("probe left") == 1


@pytest.mark.parametrize(
    ("probe", "reason"),
    [
        ("return 5", "its probe returned 5 where a ProbeResult"),
        ("return ProbeResult('high', 'ready')", "its probe returned the score 'high', which"),
        ("return ProbeResult(True, 'ready')", "its probe returned the score True, which"),
        ("return ProbeResult(-1, 'ready')", "its probe returned the score -1, which"),
        ("return ProbeResult(5.0, 'ready')", "its probe returned the score 5.0, which"),
        ("return ProbeResult(float('nan'), 'ready')", "its probe returned the score nan, which"),
        ("return ProbeResult(50, ' ')", "its probe returned the reason ' ', where words"),
        ("return ProbeResult(50, None)", "its probe returned the reason None, where words"),
        ("return ProbeResult(None, '')", "its probe returned the reason '', where words"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
    ],
)
def test_a_probe_that_gives_no_answer_has_failed(site, probe, reason):
    site.install_platform("left", probe=probe)
    listing = site.plugins()
    assert listing["left"]["state"] == "failed"
    assert listing["left"]["reason"].startswith(reason)
    assert listing.selected == ["cpu"]


def test_the_platforms_name_must_be_the_entry_points(site):
    site.install_platform("left", platform_name="gauche")
    listing = site.plugins()
    assert listing["left"]["state"] == "failed"
    assert listing["left"]["reason"] == (
        "the entry point is called 'left', its platform 'gauche': the two must be the same"
    )
    assert site.events() == ["import acme_left", "call acme_left"]


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ("Other", "acme_odd:Other is not a subclass of runtime.core.platform.interface.Platform"),
        ("value", "acme_odd:value is not a subclass of runtime.core.platform.interface.Platform"),
        (
            "Partial",
            "acme_odd:Partial does not implement device_type, capabilities, devices, memory",
        ),
        ("Missing", "AttributeError: module 'acme_odd' has no attribute 'Missing'"),
    ],
)
def test_what_a_plugin_names_must_be_a_platform(site, result, reason):
    source = f"""
from runtime.core.platform.interface import Platform, ProbeResult

class Other:
    name = "odd"

value = 42

class Partial(Platform):
    name = "odd"

    @classmethod
    def probe(cls):
        return ProbeResult(50, "ready")

def register():
    return __name__ + ":{result}"
"""
    site.install("acme-odd", source, platforms={"odd": "acme_odd:register"})
    listing = site.plugins()
    assert listing["odd"]["state"] == "failed"
    assert listing["odd"]["reason"] == reason
    assert listing.selected == ["cpu"]


def test_a_plugin_that_returns_no_name_has_failed(site):
    source = "def register():\n    return int\n"
    site.install("acme-odd", source, platforms={"odd": "acme_odd:register"})
    assert site.plugins()["odd"]["reason"] == (
        "returned <class 'int'> where a class's qualified name or None is expected"
    )


def test_each_platform_is_probed_once_a_process(site, select):
    site.install_platform("left", 20)
    site.install_platform("right", 30)
    assert len(select("-", "-", "left", "right")) == 4
    assert sorted(site.events()) == [
        "call acme_left",
        "call acme_right",
        "import acme_left",
        "import acme_right",
        "probe left",
        "probe right",
    ]


def test_probing_the_built_in_platforms_imports_no_torch(site):
    code = (
        "import sys; from runtime.core.platform.select import select_platform;"
        "print(select_platform().platform.name, 'torch' in sys.modules)"
    )
    assert site.python("-c", code).stdout == "cpu False\n"


def test_a_platform_given_as_object_or_class_is_taken_as_it_is():
    platform = NullPlatform()
    assert select_platform(platform, environ={"VLLM_TARGET_DEVICE": "cpu"}).platform is platform
    chosen = select_platform(NullPlatform, environ={"VLLM_TARGET_DEVICE": "cpu"})
    assert type(chosen.platform) is NullPlatform
    assert chosen.reason == "null: given as a class"


def test_the_environment_may_be_given():
    assert select_platform(environ={"VLLM_TARGET_DEVICE": "null"}).platform.name == "null"
    with pytest.raises(PlatformError, match=r"'toaster' \(asked for by VLLM_TARGET_DEVICE\)"):
        select_platform(environ={"VLLM_TARGET_DEVICE": "toaster"})


CONSTRUCTOR = """
    def __init__(self):
        raise OSError("no such device")
"""


def break_constructor(site, name):
    """Make a platform that was installed say that it can run here, and fail when it is made."""
    path = site.folder / f"acme_{name}.py"
    path.write_text(path.read_text().replace("\ndef register()", f"{CONSTRUCTOR}\ndef register()"))


def test_a_found_platform_that_cannot_be_made_is_passed_over_for_the_next_best(site, select):
    site.install_platform("left", 20)
    site.install_platform("right", 30)
    break_constructor(site, "right")
    first, second = select("-", "-")
    assert first.startswith("left: ready (chosen automatically")
    assert "right: OSError: no such device" in first
    assert second == first
    assert site.events().count("probe right") == 1
    (warning,) = site.plugins().warnings
    assert warning.endswith(
        "plugin 'right' of acme-right 1.2 failed: OSError: no such device; going on without it"
    )


@pytest.mark.parametrize("choice", [{"VLLM_TARGET_DEVICE": "left"}, {"VLLM_PLUGINS": "left"}])
def test_a_named_platform_that_cannot_be_made_is_an_error(site, choice):
    site.install_platform("left")
    break_constructor(site, "left")
    done = site.run("generate", "nowhere", "--prompt", "x", **choice)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "runtime: error: plugin 'left' of acme-left 1.2 failed: OSError: no such device"
    ]


class Unmade(NullPlatform):
    def __init__(self):
        raise OSError("no such device")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (int, r"platform=<class 'int'>: int is not a subclass of runtime\.core\..*\.Platform"),
        (Platform, r"Platform does not implement name, device_type, .*probe"),
        (Unmade, r"OSError: no such device"),
        (7, r"platform=7 must be a platform's name, or a Platform object or class"),
    ],
)
def test_what_is_given_must_be_a_platform(given, words):
    with pytest.raises(PlatformError, match=words):
        select_platform(given)


def test_blanks_around_the_variable_are_ignored():
    assert select_platform(environ={"VLLM_TARGET_DEVICE": " null "}).platform.name == "null"
    assert select_platform(environ={"VLLM_TARGET_DEVICE": "  "}).platform.name == "cpu"


def test_a_manager_of_ones_own_keeps_what_was_probed(site):
    site.install_platform("left")
    code = (
        "from runtime.core.platform.select import select_platform\n"
        "from runtime.plugins.manager import PluginManager\n"
        "manager = PluginManager()\n"
        "print([select_platform(manager=manager).platform.name for _ in range(2)])\n"
    )
    assert site.python("-c", code).stdout == "['left', 'left']\n"
    assert site.events().count("probe left") == 1


def test_the_load_time_covers_import_call_class_and_probe(site):
    nap = "import time\ntime.sleep({})\n"
    site.module("acme_slow_class", nap.format(0.1) + PLATFORM_MODULE)
    source = (
        nap.format(0.1) + "def register():\n    time.sleep(0.1)\n    return 'acme_slow_class:D'\n"
    )
    site.install("acme-slow", source, platforms={"slow": "acme_slow:register"})
    assert site.plugins()["slow"]["load_ms"] >= 400
