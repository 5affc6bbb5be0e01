"""The memory role of the CUDA platform."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from runtime.core.config.runtime import RuntimeConfig
from runtime.core.platform.interface import MemoryInfo, MemoryUse
from runtime.platforms.cuda.devices import refuse_in_capture

DEFAULT_UTILIZATION = 0.9
"""The share of a GPU's memory that an engine takes unasked."""

GRAPHS = 1 << 30
"""Bytes left for captured graphs, beside a step's activations."""


def cache_bytes(info: MemoryInfo, use: MemoryUse, share: float) -> int:
    """Bytes for the KV cache: the share, less what is taken already and what a step will take.

    Weights are among what is taken. Never more than is wanted, nor than is free.
    """
    taken = info.total - info.free
    room = int(share * info.total) - taken - use.peak_activations
    if room > GRAPHS:
        room -= GRAPHS
    return max(0, min(use.kv_bytes_wanted, room, info.free))


class CudaMemory:
    """GPU memory; see :class:`runtime.core.platform.interface.MemoryRole`."""

    def info(self, index: int = 0) -> MemoryInfo:
        """What the driver says, with what torch's allocator holds unused counted as free."""
        free, total = torch.cuda.mem_get_info(index)
        unused = torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index)
        return MemoryInfo(free + unused, total)

    def peak(self, index: int = 0) -> int:
        """Most bytes of tensors at once."""
        return torch.cuda.max_memory_allocated(index)

    def reset_peak(self, index: int = 0) -> None:
        """The peak becomes what is allocated now."""
        torch.cuda.reset_peak_memory_stats(index)

    def empty_cache(self) -> None:
        """Return unused memory of torch's allocator to the driver."""
        torch.cuda.empty_cache()

    def host_buffer(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Zeros in page-locked memory, so that copies from it need not be waited for."""
        return torch.zeros(tuple(shape), dtype=dtype, pin_memory=True)

    def zeros(self, shape: Sequence[int], dtype: torch.dtype, index: int = 0) -> torch.Tensor:
        """Zeros on the device."""
        return torch.zeros(tuple(shape), dtype=dtype, device=torch.device("cuda", index))

    def copy_to_device(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Queue a copy. RuntimeError where the shapes differ, and in a capture."""
        if source.shape != target.shape:
            raise RuntimeError(
                f"copy_to_device: source has shape {tuple(source.shape)},"
                f" target has {tuple(target.shape)}"
            )
        refuse_in_capture("a copy from the host")
        target.copy_(source, non_blocking=True)

    def copy_to_host(self, source: torch.Tensor) -> torch.Tensor:
        """A tensor of its own, once the work that makes it is done. RuntimeError in a capture."""
        refuse_in_capture("a copy to the host")
        return source.cpu()

    def kv_cache_bytes(self, config: RuntimeConfig, use: MemoryUse, index: int = 0) -> int:
        """See :func:`cache_bytes`."""
        self.empty_cache()
        share = config.cache.memory_utilization or DEFAULT_UTILIZATION
        return cache_bytes(self.info(index), use, share)

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether torch's allocator, or the driver, had no memory left."""
        return isinstance(error, torch.OutOfMemoryError) or (
            isinstance(error, RuntimeError) and "out of memory" in str(error)
        )
