"""Devices and memory: the two roles that every platform must bring."""

import math
import os
import weakref

from runtime.core.platform.environment import gib_from_environment
from runtime.core.platform.host import HostDevices, HostMemory
from runtime.core.platform.interface import MemoryInfo


class SlateDevices(HostDevices):
    """Devices that torch sees as the host."""

    def count(self):
        return int(os.environ.get("SLATE_DEVICES", "2"))

    def name(self, index=0):
        return f"slate {index}"


class SlateMemory(HostMemory):
    """Accounts for what ``zeros`` gives out, and gives no more than there is."""

    def __init__(self):
        super().__init__()
        self.total = gib_from_environment(os.environ, "SLATE_MEMORY") or 1 << 30
        self.used = 0

    def info(self, index=0):
        return MemoryInfo(self.total - self.used, self.total)

    def zeros(self, shape, dtype, index=0):
        size, free = math.prod(shape) * dtype.itemsize, self.total - self.used
        if size > free:
            raise MemoryError(f"slate: {size} bytes asked for, {free} are free")
        tensor = super().zeros(shape, dtype, index)
        self._count(size)
        weakref.finalize(tensor, self._count, -size)
        return tensor

    def kv_cache_bytes(self, config, use, index=0):
        room = self.info(index).free - use.weights - use.peak_activations
        return max(0, min(use.kv_bytes_wanted, room))

    def _count(self, size):
        self.used += size
