"""The activation GELU (Hendrycks and Gimpel 2016, arXiv:1606.08415)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from runtime.core.ops.registry import OpDef, Sample, define_op
from runtime.core.ops.samples import ELEMENTWISE, normal


def reference(x: torch.Tensor, tanh: bool) -> torch.Tensor:
    """``x * P(X <= x)`` for a normal X, exactly or in its tanh form; x of any shape and dtype."""
    return F.gelu(x, approximate="tanh" if tanh else "none")


def fake(x: torch.Tensor, tanh: bool) -> torch.Tensor:
    """A tensor like x."""
    return torch.empty_like(x)


def samples(dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    """Both forms, odd widths, large values."""
    for rows, width, tanh in ((1, 64, False), (7, 1536, False), (3, 81, True), (5, 1, True)):
        yield normal((rows, width), dtype, generator, 4.0), tanh


gelu = define_op(
    OpDef(
        name="gelu",
        schema="(Tensor x, bool tanh) -> Tensor",
        reference=reference,
        fake=fake,
        tolerance=ELEMENTWISE,
        samples=samples,
    )
)
