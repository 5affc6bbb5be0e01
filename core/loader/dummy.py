"""Random weights for ``load_format="dummy"``: as fast to make as they are to copy."""

from __future__ import annotations

import math
import zlib

import torch

from runtime.core.loader.weights import LazyWeight

DUMMY_RANGE = 1e-3
"""Dummy weights lie between minus this and this."""

_PERIOD = (1 << 21) - 9
"""Values that are drawn; an odd number, so that rows of usual widths do not repeat early."""


class DummyValues:
    """Uniform values of a seed, from which every tensor takes its own stretch, over and over."""

    def __init__(self, seed: int) -> None:
        values = torch.empty(_PERIOD, dtype=torch.float32)
        values.uniform_(-DUMMY_RANGE, DUMMY_RANGE, generator=torch.Generator().manual_seed(seed))
        self._twice = torch.cat((values, values))

    def stretch(self, start: int, count: int) -> torch.Tensor:
        """``count`` values from ``start`` on, [count] float32; a view where they are few."""
        start %= _PERIOD
        if count <= _PERIOD:
            return self._twice[start : start + count]
        whole = self._twice[start : start + _PERIOD]
        return whole.repeat(-(-count // _PERIOD))[:count]


class DummyWeight(LazyWeight):
    """A tensor of such values: the same for a name, shape and seed on every device."""

    dtype = torch.float32

    def __init__(self, name: str, shape: tuple[int, ...], values: DummyValues) -> None:
        self.name = name
        self.shape = shape
        self._values = values
        self._start = zlib.crc32(name.encode())

    def read(self, start: int, stop: int) -> torch.Tensor:
        """Rows in any order."""
        shape = (stop - start, *self.shape[1:]) if self.shape else ()
        row = math.prod(self.shape[1:])
        return self._values.stretch(self._start + start * row, math.prod(shape)).view(shape)
