"""Roles of devices whose tensors are host tensors: what a platform need not write again.

The processor itself is such a device, and so is a simulated one.
"""

from __future__ import annotations

import math
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil
import torch

_RESET_PEAK = "5"
"""What resets the peak resident size when written to clear_refs (Linux, proc(5))."""


class HostDevices:
    """The part of a :class:`runtime.core.platform.interface.DeviceRole` that the host settles.

    Every index is the same torch device. A subclass adds ``count`` and ``name``.
    """

    def device(self, index: int = 0) -> torch.device:
        """``cpu``."""
        return torch.device("cpu")

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


class HostMemory:
    """The part of a :class:`runtime.core.platform.interface.MemoryRole` that the host settles.

    A subclass adds ``info`` and ``kv_cache_bytes``.
    """

    def __init__(self) -> None:
        self._floor = 0
        """Where the kernel's peak cannot be reset: the peak at the last reset."""

    def empty_cache(self) -> None:
        """Nothing to do: torch's host allocator caches nothing."""

    def host_buffer(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """An ordinary tensor of zeros."""
        return torch.zeros(tuple(shape), dtype=dtype, device="cpu")

    def zeros(self, shape: Sequence[int], dtype: torch.dtype, index: int = 0) -> torch.Tensor:
        """Memory that the system maps, zeroed, page by page as it is touched.

        torch's own zeros writes to all of it.
        """
        size = math.prod(shape) * dtype.itemsize
        return torch.from_numpy(np.zeros(size, dtype=np.uint8)).view(dtype).view(tuple(shape))

    def copy_to_device(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy at once. Raises RuntimeError where the shapes differ."""
        if source.shape != target.shape:
            raise RuntimeError(
                f"copy_to_device: source has shape {tuple(source.shape)},"
                f" target has {tuple(target.shape)}"
            )
        target.copy_(source)

    def copy_to_host(self, source: torch.Tensor) -> torch.Tensor:
        """A tensor of its own, which later work on ``source`` does not change."""
        return source.clone()

    def peak(self, index: int = 0) -> int:
        """Most bytes of the whole process in memory at once since the reset.

        It includes what is not a tensor, and mapped files as far as they were read. Where the
        kernel does not let the peak be reset, and it has not been passed since, what is in
        memory now.
        """
        peak = self._kernel_peak()
        return peak if peak > self._floor else int(psutil.Process().memory_info().rss)

    def reset_peak(self, index: int = 0) -> None:
        """Start a new measurement, in the kernel where it permits that."""
        try:
            Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
            self._floor = 0
        except OSError:
            self._floor = self._kernel_peak()

    def _kernel_peak(self) -> int:
        try:
            lines = Path("/proc/self/status").read_text().splitlines()
        except OSError:
            lines = []
        for line in lines:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
        unit = 1 if sys.platform == "darwin" else 1 << 10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether Python or torch's host allocator got no memory."""
        return isinstance(error, MemoryError) or (
            isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
        )
