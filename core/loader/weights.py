"""Weights that are read when they are needed, and where they go."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch

CHUNK_BYTES = 4 << 20
"""Bytes, counted in float32, of the rows that are read and converted at once."""


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
        """Rows ``start:stop`` of the first dimension as a host tensor (possibly a mapped view).

        A tensor without dimensions is read whole.
        """

    def copy_into(
        self, target: torch.Tensor, copy: Callable[[torch.Tensor, torch.Tensor], None]
    ) -> None:
        """Fill ``target`` (same shape, any dtype, any device) in chunks of rows.

        ``copy(source, target)`` must be done with ``source`` when it returns.
        """
        if not self.shape:
            copy(self.read(0, 1).to(target.dtype), target)
            return
        rows = self.shape[0]
        row_bytes = max(1, 4 * math.prod(self.shape[1:]))
        step = max(1, CHUNK_BYTES // row_bytes)
        for start in range(0, rows, step):
            stop = min(rows, start + step)
            copy(self.read(start, stop).to(target.dtype), target[start:stop])
