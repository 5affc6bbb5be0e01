"""Whose threads compute what in a step."""

import pytest
import torch

from runtime.core.runner.graph_runner import GraphModelRunner
from runtime.platforms.cpu import runner
from runtime.platforms.cpu.kernels import why_missing

pytestmark = pytest.mark.skipif(why_missing() is not None, reason="the kernels are not installed")


@pytest.fixture
def threads():
    """Three of torch's threads; afterwards as they were."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_torch_has_one_thread_within_a_step(threads, monkeypatch):
    monkeypatch.setattr(GraphModelRunner, "submit", lambda *_: torch.get_num_threads())
    assert object.__new__(runner.CpuModelRunner).submit(None) == 1
    assert torch.get_num_threads() == 3


def test_a_step_that_fails_leaves_the_threads_as_they_were(threads, monkeypatch):
    def submit(self, step):
        raise ValueError("no")

    monkeypatch.setattr(GraphModelRunner, "submit", submit)
    with pytest.raises(ValueError, match="no"):
        object.__new__(runner.CpuModelRunner).submit(None)
    assert torch.get_num_threads() == 3


def test_without_kernels_torch_keeps_its_threads(threads, monkeypatch):
    monkeypatch.setattr(runner, "why_missing", lambda: "not there")
    monkeypatch.setattr(GraphModelRunner, "submit", lambda *_: torch.get_num_threads())
    assert object.__new__(runner.CpuModelRunner).submit(None) == 3
