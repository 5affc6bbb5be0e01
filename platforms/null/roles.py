"""The device and memory roles of the null platform."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from runtime.core.config.runtime import RuntimeConfig
from runtime.core.platform.interface import MemoryInfo, MemoryUse
from runtime.platforms.null.backend import ensure_registered
from runtime.platforms.null.device import null_device
from runtime.platforms.null.tensor import DEVICE_TYPE, check_index, host_of

KV_FRACTION = 0.9
"""Share that a KV cache may take of what a step's activations leave of the free memory."""


class NullDevices:
    """The one null device; see :class:`runtime.core.platform.interface.DeviceRole`."""

    def __init__(self) -> None:
        ensure_registered()

    def count(self) -> int:
        """One."""
        return 1

    def device(self, index: int = 0) -> torch.device:
        """``null:0``. Raises RuntimeError for another index."""
        device = torch.device(DEVICE_TYPE, index)
        check_index(device)
        return device

    def name(self, index: int = 0) -> str:
        """The device in words."""
        return f"null device, {null_device().total / 2**30:g} GiB"

    def activate(self, index: int = 0) -> None:
        """Nothing to make current; raises RuntimeError for a device that is not there."""
        self.device(index)

    def synchronize(self, index: int = 0) -> None:
        """Counted. Raises RuntimeError inside a graph capture."""
        null_device().wait("synchronize")

    def seed(self, seed: int) -> None:
        """Seed the generator that ops without one draw from: the host's default."""
        torch.default_generator.manual_seed(seed)

    def generator(self, index: int = 0) -> torch.Generator:
        """A host generator: the ops run on the host."""
        return torch.Generator()


class NullMemory:
    """Memory of the null device; see :class:`runtime.core.platform.interface.MemoryRole`."""

    def info(self, index: int = 0) -> MemoryInfo:
        """Bytes of storages that tensors hold, against the device's size."""
        device = null_device()
        return MemoryInfo(device.total - device.used, device.total)

    def peak(self, index: int = 0) -> int:
        """Exact: counted allocation by allocation."""
        return null_device().peak

    def reset_peak(self, index: int = 0) -> None:
        """The peak becomes what is allocated now."""
        null_device().reset_peak()

    def empty_cache(self) -> None:
        """Nothing is cached: memory returns with its last tensor."""

    def host_buffer(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """An ordinary host tensor of zeros."""
        return torch.zeros(tuple(shape), dtype=dtype, device="cpu")

    def zeros(self, shape: Sequence[int], dtype: torch.dtype, index: int = 0) -> torch.Tensor:
        """An ordinary device tensor of zeros."""
        return torch.zeros(tuple(shape), dtype=dtype, device=torch.device("null", index))

    def copy_to_device(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Counted. Raises RuntimeError unless host to device, of one shape, outside a capture."""
        inner = host_of(target)
        if source.device.type != "cpu":
            raise RuntimeError(f"copy_to_device: the source is on {source.device}, not on the host")
        if source.shape != target.shape:
            raise RuntimeError(
                f"copy_to_device: source has shape {tuple(source.shape)},"
                f" target has {tuple(target.shape)}"
            )
        device = null_device()
        device.refuse_in_capture("copy_to_device", "copies from the host")
        inner.copy_(source)
        device.count("copies_to_device")
        device.count("bytes_to_device", source.numel() * source.element_size())

    def copy_to_host(self, source: torch.Tensor) -> torch.Tensor:
        """Counted. Raises RuntimeError unless device to host, outside a capture."""
        inner = host_of(source)
        device = null_device()
        device.refuse_in_capture("copy_to_host", "copies to the host")
        device.count("copies_to_host")
        device.count("bytes_to_host", source.numel() * source.element_size())
        return inner.clone()

    def kv_cache_bytes(self, config: RuntimeConfig, use: MemoryUse, index: int = 0) -> int:
        """What is wanted, within the device's free memory."""
        room = int(KV_FRACTION * (self.info(index).free - use.peak_activations))
        return max(0, min(use.kv_bytes_wanted, room))

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether the device refused an allocation."""
        return isinstance(error, torch.OutOfMemoryError)
