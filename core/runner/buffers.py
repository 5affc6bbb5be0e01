"""Host arrays that are mirrored on the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from runtime.core.platform.interface import MemoryRole

_MOST_PARTS = 1024
"""Views of a buffer's first rows that are kept: a step would otherwise make a dozen anew."""


class MirroredBuffer:
    """A host buffer and a device buffer of one shape, allocated once.

    Steps write into :attr:`host` (the NumPy view of :attr:`host_tensor`) and :meth:`push` the
    part in use, so that device addresses stay the same from step to step. Where host tensors are
    the device's own, the two are one.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: torch.dtype,
        device: torch.device,
        memory: MemoryRole,
        turns: int = 1,
    ) -> None:
        """``turns`` is the number of steps that may be under way at once."""
        self._sources = [memory.host_buffer(shape, dtype) for _ in range(turns)]
        self._arrays: list[npt.NDArray[np.generic]] = [one.numpy() for one in self._sources]
        self._turn = 0
        self._shared = self.host_tensor.device == device
        if self._shared:
            del self._sources[1:], self._arrays[1:]
        self.device_tensor = self.host_tensor
        if not self._shared:
            self.device_tensor = torch.zeros(tuple(shape), dtype=dtype, device=device)
        self._memory = memory
        self._parts: dict[int, torch.Tensor] = {}

    @property
    def host_tensor(self) -> torch.Tensor:
        """The host side of this step."""
        return self._sources[self._turn]

    @property
    def host(self) -> npt.NDArray[np.generic]:
        """The same, for NumPy."""
        return self._arrays[self._turn]

    def turn(self) -> None:
        """Begin a step: go on to the next host side, which the device has read by then."""
        self._turn = (self._turn + 1) % len(self._sources)

    def push(self, count: int) -> torch.Tensor:
        """Copy the first ``count`` rows to the device and return them there."""
        target = self._parts.get(count)
        if target is None:
            if len(self._parts) >= _MOST_PARTS:
                self._parts.clear()
            target = self._parts[count] = self.device_tensor[:count]
        if count and not self._shared:
            self._memory.copy_to_device(self.host_tensor[:count], target)
        return target


def put(
    buffer: MirroredBuffer, values: npt.NDArray[np.generic], padding: int, fill: int = 0
) -> None:
    """Write rows to the host side, and ``padding`` rows of ``fill`` behind them."""
    count = len(values)
    buffer.host[:count] = values
    if padding:
        buffer.host[count : count + padding] = fill


def to_device(
    values: Sequence[int] | Sequence[float] | npt.NDArray[np.generic],
    dtype: torch.dtype,
    device: torch.device,
    memory: MemoryRole,
) -> torch.Tensor:
    """A new device tensor with those host values."""
    source = torch.as_tensor(values, dtype=dtype)
    target = torch.empty(source.shape, dtype=dtype, device=device)
    if source.numel():
        memory.copy_to_device(source, target)
    return target
