"""The device role of the CPU platform."""

from __future__ import annotations

import os

from runtime.core.platform.host import HostDevices
from runtime.platforms.cpu.graphs import refuse_in_capture
from runtime.platforms.cpu.hardware import architecture, instruction_set
from runtime.platforms.cpu.threads import workers_bound


class CpuDevices(HostDevices):
    """The processor; see :class:`runtime.core.platform.interface.DeviceRole`.

    Workers differ in the cores that they are bound to.
    """

    def count(self) -> int:
        """One, or the workers that ``VLLM_CPU_OMP_THREADS_BIND`` lists cores for."""
        return workers_bound(os.environ)

    def name(self, index: int = 0) -> str:
        """Architecture and widest instruction set."""
        arch = architecture()
        words = [arch, instruction_set(arch)] if arch else []
        return " ".join(word for word in ["CPU", *words] if word)

    def synchronize(self, index: int = 0) -> None:
        """Nothing to wait for. RuntimeError in a capture, as on any device."""
        refuse_in_capture("waiting for the device")
