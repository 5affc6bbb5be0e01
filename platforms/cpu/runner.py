"""The CPU platform's model runner: which threads compute what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from runtime.core.messages import PendingOutput, SchedulerOutput
from runtime.core.runner.graph_runner import GraphModelRunner
from runtime.platforms.cpu.kernels import why_missing


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Torch computes with so many threads within."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class CpuModelRunner(GraphModelRunner):
    """Keeps torch to one thread within a step where the kernels have threads of their own.

    After an op on several threads, OpenMP's workers look for the next one for milliseconds, on the
    cores that the kernels' workers need: seven a step of SmolLM2 on two cores. What torch computes
    in a step is small.
    """

    def submit(self, step: SchedulerOutput) -> PendingOutput:
        """Run one step."""
        if why_missing() is not None:
            return super().submit(step)
        with torch_threads(1):
            return super().submit(step)
