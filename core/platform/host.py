"""Roles of devices whose tensors are host tensors: what a platform need not write again.

The processor itself is such a device, and so is a simulated one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch


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

    A subclass adds ``info``, ``peak``, ``reset_peak``, ``kv_cache_bytes`` and
    ``is_out_of_memory``.
    """

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
