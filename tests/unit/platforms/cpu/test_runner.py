"""Whose threads compute what in a step."""

import pytest
import torch

from runtime.core.runner.graph_runner import GraphModelRunner
from runtime.core.sampling.sampler import Sampler
from runtime.platforms.cpu import runner
from runtime.platforms.cpu.kernels import why_missing

pytestmark = pytest.mark.skipif(why_missing() is not None, reason="the kernels are not installed")


@pytest.fixture
def threads():
    """Three of torch's threads, two of the kernels'; afterwards as they were."""
    operators = runner.operators()
    before, own = torch.get_num_threads(), operators.threads()
    torch.set_num_threads(3)
    operators.use_threads(2)
    yield
    torch.set_num_threads(before)
    operators.use_threads(own)


def test_torch_has_one_thread_within_a_step_and_all_while_it_draws(threads, monkeypatch):
    seen = []
    sampler = object.__new__(runner.CpuSampler)
    monkeypatch.setattr(Sampler, "draw", lambda *_: seen.append(torch.get_num_threads()))

    def submit(self, step):
        seen.append(torch.get_num_threads())
        sampler.draw(None, [])
        seen.append(torch.get_num_threads())

    monkeypatch.setattr(GraphModelRunner, "submit", submit)
    object.__new__(runner.CpuModelRunner).submit(None)
    assert seen == [1, 2, 1]
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
