"""Starts of a child are timed from outside, and a child that fails is told."""

import sys

import pytest

from runtime.core.entrypoints.bench.startup import Start, start_once, summarise
from runtime.core.errors import RuntimeUserError

GOOD = """
import json, sys, time
arguments = json.load(sys.stdin)
time.sleep(0.1)
print("ready", flush=True)
time.sleep(0.15)
print("token", flush=True)
sys.stderr.write("x" * 500_000)
print(json.dumps({"peak_rss_bytes": arguments["peak"], "platform": {"name": "none"}}))
"""


def child(code):
    return (sys.executable, "-c", code)


def test_a_start_is_timed():
    start = start_once(child(GOOD), {"peak": 7 << 20})
    assert start.ready_s >= 0.1
    assert start.first_token_s - start.ready_s >= 0.14
    assert start.peak_rss_bytes == 7 << 20
    assert start.platform == {"name": "none"}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "import sys; sys.exit('INFO one line\\nruntime: error: no such model')",
            "the engine did not start (exit status 1): no such model",
        ),
        ("print('ready')", "the engine did not start (exit status 0): no word on stderr"),
        ("import os; os.kill(os.getpid(), 9)", "exit status -9"),
    ],
)
def test_a_child_that_fails_is_told_in_its_own_words(code, message):
    with pytest.raises(RuntimeUserError) as caught:
        start_once(child(code), {})
    assert message in str(caught.value)


def test_medians_are_taken_of_each_by_itself():
    starts = [Start(1.0, 5.0, 300, {}), Start(3.0, 4.0, 100, {}), Start(2.0, 9.0, 200, {})]
    results = summarise(starts)
    assert results["num_starts"] == 3
    assert results["median_ready_s"] == 2.0
    assert results["median_first_token_s"] == 5.0
    assert results["median_peak_rss_bytes"] == 200
    assert results["starts"][1]["first_token_s"] == 4.0
