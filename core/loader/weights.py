"""Weights that are read when they are needed, and where they go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch

CHUNK_BYTES = 16 << 20
"""Most bytes a conversion keeps beside the weight itself."""


class LazyWeight(ABC):
    """One tensor of a checkpoint, read on demand.

    ``name`` is the tensor's name in transformers' checkpoints, ``shape`` and ``dtype`` what
    :meth:`read` gives: for a quantised tensor those of its dequantised values.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    @abstractmethod
    def read(self, start: int, stop: int) -> torch.Tensor:
        """Rows ``start:stop`` of the first dimension as a host tensor (possibly a mapped view)."""

    def copy_into(
        self, target: torch.Tensor, copy: Callable[[torch.Tensor, torch.Tensor], None]
    ) -> None:
        """Fill ``target`` (same shape, any dtype, any device) in chunks of rows.

        ``copy(source, target)`` is the platform's host-to-device copy.
        """
        rows = self.shape[0]
        row_bytes = max(1, 4 * _numel(self.shape) // max(1, rows))
        step = max(1, CHUNK_BYTES // row_bytes)
        for start in range(0, rows, step):
            stop = min(rows, start + step)
            copy(self.read(start, stop).to(target.dtype), target[start:stop])


def _numel(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
