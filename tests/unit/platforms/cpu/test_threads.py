"""Thread plans from the environment, and their effect on a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from runtime.core.errors import ConfigError
from runtime.platforms.cpu import threads
from runtime.platforms.cpu.threads import BIND_VARIABLE, ThreadPlan, plan_threads, workers_bound


@pytest.fixture
def eight_cores(machine):
    """A machine with eight cores and no limits."""
    return machine({"sys/devices/system/cpu/online": "0-7\n"})


def test_auto_counts_cores_and_pins_nothing(eight_cores, monkeypatch):
    monkeypatch.setattr(threads, "worker_threads", lambda root: 5)
    for environ in ({}, {BIND_VARIABLE: "auto"}, {BIND_VARIABLE: " "}):
        assert plan_threads(environ, 0, eight_cores) == ThreadPlan(5)
    assert plan_threads({"OMP_NUM_THREADS": "3"}, 0, eight_cores) == ThreadPlan(3)


def test_nobind_leaves_torchs_choice_or_the_users(eight_cores):
    assert plan_threads({BIND_VARIABLE: "nobind"}, 0, eight_cores) == ThreadPlan(None)
    environ = {BIND_VARIABLE: "nobind", "OMP_NUM_THREADS": "4,2"}
    assert plan_threads(environ, 0, eight_cores) == ThreadPlan(4)


def test_lists_give_each_worker_its_cores(eight_cores):
    environ = {BIND_VARIABLE: "0-2,7|3,4"}
    assert workers_bound(environ) == 2
    assert plan_threads(environ, 0, eight_cores) == ThreadPlan(4, frozenset({0, 1, 2, 7}))
    assert plan_threads(environ, 1, eight_cores) == ThreadPlan(2, frozenset({3, 4}))
    with pytest.raises(ConfigError, match=r"2 worker.*worker 2"):
        plan_threads(environ, 2, eight_cores)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({BIND_VARIABLE: "0-9"}, r"BIND='0-9': core\(s\) 8-9 cannot .* choose from 0-7"),
        ({BIND_VARIABLE: "fast"}, "BIND='fast'.*'auto', 'nobind'"),
        ({BIND_VARIABLE: "|1"}, r"BIND='\|1'.*not a list of cores"),
        ({"OMP_NUM_THREADS": "0"}, "OMP_NUM_THREADS='0'"),
        ({"OMP_NUM_THREADS": "many"}, "OMP_NUM_THREADS='many'"),
    ],
)
def test_bad_values_are_named(eight_cores, environ, message):
    with pytest.raises(ConfigError, match=message):
        plan_threads(environ, 0, eight_cores)


def _start_worker(setting: str) -> str:
    program = (
        "import os, threading\n"
        "from runtime.platforms.cpu.platform import CpuPlatform\n"
        "stop = threading.Event(); old = threading.Thread(target=stop.wait); old.start()\n"
        "print(CpuPlatform().start_worker(None, 0))\n"
        "import torch\n"
        "(torch.ones(512, 512) @ torch.ones(512, 512)).sum()\n"
        "masks = {frozenset(os.sched_getaffinity(int(t))) for t in os.listdir('/proc/self/task')}\n"
        "stop.set()\n"
        "print(torch.get_num_threads(), sorted(map(sorted, masks)))\n"
    )
    environ = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**environ, BIND_VARIABLE: setting},
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout


needs_affinity = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="this system binds no threads"
)


@needs_affinity
def test_a_list_pins_threads_made_before_and_after():
    core = min(os.sched_getaffinity(0))
    line, state = _start_worker(str(core)).splitlines()
    assert line == f"1 thread bound to core {core}"
    assert state == f"1 [[{core}]]"


@needs_affinity
def test_auto_leaves_the_affinity_alone():
    line, state = _start_worker("auto").splitlines()
    assert line.endswith("not bound to cores")
    assert state.endswith(f" [{sorted(os.sched_getaffinity(0))}]")
