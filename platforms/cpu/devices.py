"""The device role of the CPU platform."""

from __future__ import annotations

import os

import torch

from runtime.platforms.cpu.hardware import architecture, instruction_set
from runtime.platforms.cpu.threads import workers_bound


class CpuDevices:
    """The processor; see :class:`runtime.core.platform.interface.DeviceRole`.

    Every index is the same torch device: workers differ in the cores that they are bound to.
    """

    def count(self) -> int:
        """One, or the workers that ``VLLM_CPU_OMP_THREADS_BIND`` lists cores for."""
        return workers_bound(os.environ)

    def device(self, index: int = 0) -> torch.device:
        """``cpu``."""
        return torch.device("cpu")

    def name(self, index: int = 0) -> str:
        """Architecture and widest instruction set."""
        arch = architecture()
        words = [arch, instruction_set(arch)] if arch else []
        return " ".join(word for word in ["CPU", *words] if word)

    def activate(self, index: int = 0) -> None:
        """Nothing to make current."""

    def synchronize(self, index: int = 0) -> None:
        """Nothing to wait for: ops return when they are done."""

    def seed(self, seed: int) -> None:
        """Seed torch's default host generator."""
        torch.default_generator.manual_seed(seed)

    def generator(self, index: int = 0) -> torch.Generator:
        """A host generator."""
        return torch.Generator()
