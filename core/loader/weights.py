"""Weights that are read when they are needed, and where they go."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from runtime.core.quantization.block_formats import BlockFormat, BlockRows

CHUNK_BYTES = 4 << 20
"""Bytes, counted in float32, of the rows that are read and converted at once."""


class FilePlace(NamedTuple):
    """Where a tensor's bytes are, about."""

    path: Path
    start: int
    length: int


class LazyWeight(ABC):
    """One tensor of a checkpoint, read on demand.

    ``name`` is the tensor's name in transformers' checkpoints, ``shape`` and ``dtype`` what
    :meth:`read` gives: for a quantised tensor those of its dequantised values.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def place(self) -> FilePlace | None:
        """The file's bytes that :meth:`read` will read, for reading ahead. Default: unknown."""
        return None

    @abstractmethod
    def read(self, start: int, stop: int) -> torch.Tensor:
        """Rows ``start:stop`` of the first dimension as a host tensor (possibly a mapped view).

        A tensor without dimensions is read whole.
        """

    def read_blocks(self, start: int, stop: int, kind: BlockFormat) -> torch.Tensor:
        """Rows ``start:stop`` in a block format: uint8 [rows, row_bytes] on the host.

        Default: their values, quantised.
        """
        return kind.quantize(self.read(start, stop))

    def copy_into(
        self, target: torch.Tensor | BlockRows, copy: Callable[[torch.Tensor, torch.Tensor], None]
    ) -> None:
        """Fill ``target`` (same shape, any dtype or block format, any device) in chunks of rows.

        ``copy(source, target)`` must be done with ``source`` when it returns.
        """
        if isinstance(target, BlockRows):
            for start, stop in self._chunks():
                copy(self.read_blocks(start, stop, target.kind), target.data[start:stop])
            return
        if not self.shape:
            copy(self.read(0, 1).to(target.dtype), target)
            return
        for start, stop in self._chunks():
            copy(self.read(start, stop).to(target.dtype), target[start:stop])

    def _chunks(self) -> Iterator[tuple[int, int]]:
        """First row of each chunk and the one after its last."""
        rows = self.shape[0]
        row_bytes = max(1, 4 * math.prod(self.shape[1:]))
        step = max(1, CHUNK_BYTES // row_bytes)
        for start in range(0, rows, step):
            yield start, min(rows, start + step)
