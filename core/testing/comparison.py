"""How far a result is from what it should be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from runtime.core.ops.registry import Tolerance


@dataclass(frozen=True)
class Deviation:
    """The worst element of a result."""

    error: float
    """Largest absolute difference; infinite where one side is no number and the other is one."""
    share: float
    """Largest difference as a share of what its element may be off; above 1 is too much."""

    @property
    def acceptable(self) -> bool:
        """Whether every element is within the tolerance."""
        return self.share <= 1

    def __str__(self) -> str:
        """As a report has it."""
        return f"{self.error:.2g} ({self.share:.2g} x tolerance)"


def deviation(got: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> Deviation:
    """Compare a host tensor of any dtype with a float64 one of the same shape.

    An element may be off by ``atol + rtol * |expected|``.
    """
    if not got.numel():
        return Deviation(0.0, 0.0)
    wide = got.double()
    same = (wide == expected) | (wide.isnan() & expected.isnan())
    error = (wide - expected).abs()
    share = error / (tolerance.atol + tolerance.rtol * expected.abs())
    errors, shares = (
        values.masked_fill(values.isnan(), torch.inf).masked_fill(same, 0)
        for values in (error, share)
    )
    return Deviation(errors.max().item(), shares.max().item())


def worst(deviations: Iterable[Deviation]) -> Deviation:
    """The one with the largest share; zero where there is none."""
    return max(deviations, key=lambda own: own.share, default=Deviation(0.0, 0.0))
