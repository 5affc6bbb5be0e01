"""``runtime plugins``: the listing as people and programs read it."""

import json
import re

COLUMNS = ["GROUP", "NAME", "DISTRIBUTION", "STATE", "SCORE", "LOAD", "REASON"]


def cells(line):
    return re.split(r"\s{2,}", line)


def test_the_table_has_a_line_for_each_plugin_and_the_choice_with_its_reason(site):
    site.install_platform("left", 20)
    site.install_general("models")
    site.install_general("broken", "raise RuntimeError('no luck')")
    done = site.run("plugins")
    assert done.returncode == 0
    header, *lines, blank, choice = done.stdout.splitlines()
    assert cells(header) == COLUMNS
    rows = {cells(line)[1]: cells(line) for line in lines}
    assert list(rows) == ["cpu", "cuda", "left", "null", "broken", "models", "hardware"]
    group, _, distribution, state, score, load, reason = rows["left"]
    assert (group, distribution) == ("platform_plugins", "acme-left 1.2")
    assert (state, score, reason) == ("selected", "20", "ready")
    assert re.fullmatch(r"\d+\.\d ms", load)
    group, _, distribution, state, score, _, reason = rows["broken"]
    assert (group, distribution) == ("general_plugins", "acme-broken 1.2")
    assert (state, score, reason) == ("failed", "-", "RuntimeError: no luck")
    assert blank == ""
    assert choice.startswith("platform left: ready (chosen automatically, score 20; others: cpu: ")


def test_the_table_starts_its_columns_in_one_place(site):
    site.install_platform("a-platform-with-a-long-name", 20)
    header, *lines = site.run("plugins").stdout.split("\n\n")[0].splitlines()
    for column in COLUMNS[1:]:
        start = header.index(column)
        for line in lines:
            assert line[start - 1] == " "
            assert line[start] != " "


def test_json_goes_to_stdout_alone(site):
    site.install_general("broken", "raise RuntimeError('no luck')")
    done = site.run("plugins", "--json")
    assert [row["name"] for row in json.loads(done.stdout)] == [
        "cpu",
        "cuda",
        "null",
        "broken",
        "hardware",
    ]
    assert "no luck" in done.stderr


def test_the_platform_asked_for_is_the_one_selected(site):
    listing = site.plugins("--platform", "null")
    assert listing.states == {"cpu": "available", "null": "selected"}
    listing = site.plugins("--platform=cpu", VLLM_TARGET_DEVICE="null")
    assert listing.states == {"cpu": "selected", "null": "available"}


def test_a_platform_that_cannot_run_here_is_not_available(site):
    site.install_platform("left", probe="return ProbeResult.no('no device file')")
    row = site.plugins()["left"]
    assert (row["state"], row["score"], row["reason"]) == ("not available", None, "no device file")


def test_the_listing_is_printed_before_the_error(site):
    done = site.run("plugins", "--platform", "toaster")
    assert done.returncode == 2
    assert [cells(line)[1] for line in done.stdout.splitlines()] == [
        "NAME",
        "cpu",
        "cuda",
        "null",
        "hardware",
    ]
    assert done.stderr == (
        "runtime: error: platform 'toaster' (asked for by platform) is not installed; "
        "installed: cpu, cuda, null\n"
    )


def test_warnings_are_silenced_by_the_logging_level(site):
    site.install_general("broken", "raise RuntimeError('no luck')")
    assert site.plugins(VLLM_LOGGING_LEVEL="error").done.stderr == ""
    done = site.run("plugins", VLLM_LOGGING_LEVEL="loud")
    assert done.returncode == 2
    assert done.stderr == (
        "runtime: error: VLLM_LOGGING_LEVEL='LOUD' must be one of "
        "DEBUG, INFO, WARNING, ERROR, CRITICAL\n"
    )
