"""Whatever a constraint does to its compiler, the trial ends and the next one is served."""

import os
import time
from pathlib import Path

import pytest

from runtime.core.structured_output.params import Constraint, ConstraintKind
from runtime.core.structured_output.trial_process import TrialError, TrialProcess


@pytest.fixture(scope="module")
def trials(vocabulary):
    patch = pytest.MonkeyPatch()
    here = str(Path(__file__).parent)
    patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")])))
    process = TrialProcess(
        "hostile_backend:HostileBackend", vocabulary, seconds=1.0, memory_bytes=2**28
    )
    yield process
    process.shutdown()
    patch.undo()


def ask(trials, text):
    return trials.ask(Constraint(ConstraintKind.REGEX, text))


def children():
    """Processes of trials that this process has started."""
    tasks = Path(f"/proc/{os.getpid()}/task")
    pids = {pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()}
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids]
    return [line for line in lines if b"structured_output.trial" in line]


@pytest.mark.parametrize("text", ["hang", "sleep", "abort"])
def test_a_compiler_that_does_not_come_back_is_given_up(trials, text):
    assert ask(trials, "fine") is None
    others = len(children()) - 1
    started = time.perf_counter()
    with pytest.raises(TrialError, match="more than 1 s or"):
        ask(trials, text)
    assert time.perf_counter() - started < 8
    assert len(children()) == others
    assert ask(trials, "fine") is None


def test_memory_is_limited(trials):
    assert "memory" in ask(trials, "eat")
    assert ask(trials, "fine") is None


def test_recursion_is_limited(trials):
    assert "too deep" in ask(trials, "recurse")


def test_a_refusal_keeps_its_words(trials):
    assert ask(trials, "refuse") == "no reason"


def test_a_warning_is_a_refusal_of_its_own_constraint(trials):
    assert ask(trials, "warn") == "it would be enforced in part only: this is left out"
    assert ask(trials, "fine") is None


def test_a_process_that_cannot_start_is_said(vocabulary):
    missing = TrialProcess("no_such_module:Backend", vocabulary, seconds=1, memory_bytes=2**28)
    with pytest.raises(TrialError, match="cannot be started"):
        ask(missing, "fine")


def test_the_process_ends_with_its_owner(vocabulary, trials):
    ask(trials, "fine")
    others = len(children()) - 1
    trials.shutdown()
    assert len(children()) == others
