"""The memory role of the CPU platform: host memory is device memory."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import psutil
import torch

from runtime.core.config.runtime import RuntimeConfig
from runtime.core.errors import ConfigError
from runtime.core.platform.environment import gib_from_environment
from runtime.core.platform.host import HostMemory
from runtime.core.platform.interface import MemoryInfo, MemoryUse
from runtime.platforms.cpu.cgroups import ROOT, memory_left, memory_limit
from runtime.platforms.cpu.graphs import refuse_in_capture

KV_VARIABLE = "VLLM_CPU_KVCACHE_SPACE"
"""Environment variable: size of the KV cache in GiB."""

KV_FRACTION = 0.4
"""Share of the free memory that a KV cache takes at most unasked: the host has other work."""


def trim_heap() -> None:
    """Return free memory of the C library's heap to the system, where it is glibc's."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class CpuMemory(HostMemory):
    """Host memory; see :class:`runtime.core.platform.interface.MemoryRole`."""

    def __init__(self, root: Path = ROOT) -> None:
        super().__init__()
        self._root = root

    def info(self, index: int = 0) -> MemoryInfo:
        """The machine's memory, or the control group's where that is less."""
        system = psutil.virtual_memory()
        limit, left = memory_limit(self._root), memory_left(self._root)
        total = system.total if limit is None else min(system.total, limit)
        free = system.available if left is None else min(system.available, left)
        return MemoryInfo(free, total)

    def copy_to_device(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy at once. Raises RuntimeError where the shapes differ, and in a capture."""
        refuse_in_capture("a copy from the host")
        super().copy_to_device(source, target)

    def copy_to_host(self, source: torch.Tensor) -> torch.Tensor:
        """A tensor of its own. RuntimeError in a capture."""
        refuse_in_capture("a copy to the host")
        return super().copy_to_host(source)

    def kv_cache_bytes(self, config: RuntimeConfig, use: MemoryUse, index: int = 0) -> int:
        """``VLLM_CPU_KVCACHE_SPACE`` where set; else what is wanted, up to 40 % of what is free, or
        what the share that was asked for leaves.

        Raises ConfigError where the variable is no size, or more than there is.
        """
        info = self.info(index)
        asked = gib_from_environment(os.environ, KV_VARIABLE)
        if asked is None:
            share = config.cache.memory_utilization
            room = int(KV_FRACTION * info.free)
            if share is not None:
                room = int(share * info.total) - (info.total - info.free) - use.peak_activations
            return max(0, min(use.kv_bytes_wanted, room))
        if asked > info.total:
            raise ConfigError(
                f"{KV_VARIABLE}={os.environ[KV_VARIABLE]} GiB is more than this machine's memory"
                f" of {info.total / 2**30:.1f} GiB"
            )
        return asked
