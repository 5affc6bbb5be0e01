"""Devices and memory: the two roles that every platform must bring."""

import os
import weakref

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
        self.total = int(os.environ.get("SLATE_MEMORY", "1024")) << 20
        self.used = 0

    def info(self, index=0):
        return MemoryInfo(self.total - self.used, self.total)

    def zeros(self, shape, dtype, index=0):
        tensor = super().zeros(shape, dtype, index)
        if tensor.nbytes > self.total - self.used:
            free = self.total - self.used
            raise MemoryError(f"slate: {tensor.nbytes} bytes asked for, {free} are free")
        self._count(tensor.nbytes)
        weakref.finalize(tensor, self._count, -tensor.nbytes)
        return tensor

    def kv_cache_bytes(self, config, use, index=0):
        return min(use.kv_bytes_wanted, self.info(index).free)

    def _count(self, size):
        self.used += size
