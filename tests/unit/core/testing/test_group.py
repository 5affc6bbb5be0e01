import importlib
import multiprocessing
import time

import torch

from runtime.core.testing.group import CALLS, expected, run_group
from runtime.platforms.cpu.platform import CpuPlatform

EXITING = """
import os
from runtime.platforms.cpu.platform import CpuPlatform

class Exiting(CpuPlatform):
    name = "exiting"
    communicator_class = "exiting:end"

def end(*args):
    os._exit(3)
"""


def test_every_collective_gives_every_worker_what_it_should(tmp_path):
    outcomes = run_group(CpuPlatform(), [0, 0], torch.bfloat16, tmp_path)
    assert len(outcomes) == 2
    for outcome in outcomes:
        assert outcome.errors == {}
        for name, wanted in expected(torch.bfloat16).items():
            assert torch.equal(outcome.tensors[name], wanted), name
    assert expected(torch.bfloat16).keys() == CALLS.keys()


def test_a_worker_that_cannot_join_says_why(tmp_path):
    (tmp_path / "meeting").mkdir()
    started = time.monotonic()
    outcomes = run_group(CpuPlatform(), [0, 0], torch.float32, tmp_path, timeout=60)
    assert time.monotonic() - started < 60
    for outcome in outcomes:
        assert outcome.tensors == {}
        assert "Error" in outcome.errors["group"]


def test_a_worker_that_hangs_is_told_and_ended(tmp_path):
    outcomes = run_group(CpuPlatform(), [0, 0], torch.float32, tmp_path, timeout=0.1)
    assert [outcome.errors["group"] for outcome in outcomes] == [
        "worker 0 did not end in 0.1 s",
        "worker 1 did not end in 0.1 s",
    ]
    assert multiprocessing.active_children() == []


def test_a_worker_that_just_ends_is_told(tmp_path, monkeypatch):
    (tmp_path / "exiting.py").write_text(EXITING)
    monkeypatch.syspath_prepend(tmp_path)
    platform = importlib.import_module("exiting").Exiting()
    outcomes = run_group(platform, [0, 0], torch.float32, tmp_path, timeout=60)
    assert [outcome.errors["group"] for outcome in outcomes] == [
        "worker 0 ended with 3",
        "worker 1 ended with 3",
    ]
