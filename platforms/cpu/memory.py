"""The memory role of the CPU platform: host memory is device memory."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import psutil

from runtime.core.config.runtime import RuntimeConfig
from runtime.core.errors import ConfigError
from runtime.core.platform.environment import gib_from_environment
from runtime.core.platform.host import HostMemory
from runtime.core.platform.interface import MemoryInfo, MemoryUse
from runtime.platforms.cpu.cgroups import ROOT, memory_left, memory_limit

KV_VARIABLE = "VLLM_CPU_KVCACHE_SPACE"
"""Environment variable: size of the KV cache in GiB."""

KV_FRACTION = 0.4
"""Share of the free memory that a KV cache takes at most unasked: the host has other work."""

_RESET_PEAK = "5"
"""What resets the peak resident size when written to clear_refs (Linux, proc(5))."""


class CpuMemory(HostMemory):
    """Host memory; see :class:`runtime.core.platform.interface.MemoryRole`."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._floor = 0
        """Where the kernel's peak cannot be reset: the peak at the last reset."""

    def info(self, index: int = 0) -> MemoryInfo:
        """The machine's memory, or the control group's where that is less."""
        system = psutil.virtual_memory()
        limit, left = memory_limit(self._root), memory_left(self._root)
        total = system.total if limit is None else min(system.total, limit)
        free = system.available if left is None else min(system.available, left)
        return MemoryInfo(free, total)

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

    def kv_cache_bytes(self, config: RuntimeConfig, use: MemoryUse, index: int = 0) -> int:
        """``VLLM_CPU_KVCACHE_SPACE`` where set; else what is wanted, up to 40 % of what is free.

        Raises ConfigError where the variable is no size, or more than there is.
        """
        info = self.info(index)
        asked = gib_from_environment(os.environ, KV_VARIABLE)
        if asked is None:
            return min(use.kv_bytes_wanted, int(KV_FRACTION * info.free))
        if asked > info.total:
            raise ConfigError(
                f"{KV_VARIABLE}={os.environ[KV_VARIABLE]} GiB is more than this machine's memory"
                f" of {info.total / 2**30:.1f} GiB"
            )
        return asked

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether Python or torch's host allocator got no memory."""
        return isinstance(error, MemoryError) or (
            isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
        )
