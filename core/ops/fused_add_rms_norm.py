"""A residual addition and the normalisation that follows it."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from runtime.core.ops.registry import OpDef, Sample, define_op
from runtime.core.ops.rms_norm import reference as rms_norm_reference
from runtime.core.ops.samples import ELEMENTWISE, normal


def reference(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """``(rms_norm(x + residual, weight, eps), x + residual)``.

    x and residual [..., N] of one dtype; weight [N]. Neither argument is changed.
    """
    total = x + residual
    return rms_norm_reference(total, weight, eps), total


def fake(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors like x."""
    return torch.empty_like(x), torch.empty_like(x)


def samples(dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    """Rows of usual and odd widths."""
    for rows, width in ((1, 64), (7, 576), (3, 80), (33, 1000), (2, 1)):
        shape = (rows, width)
        residual = normal(shape, dtype, generator, 2.0)
        x = normal(shape, dtype, generator)
        yield x, residual, normal((width,), dtype, generator), 1e-6


fused_add_rms_norm = define_op(
    OpDef(
        name="fused_add_rms_norm",
        schema="(Tensor x, Tensor residual, Tensor weight, float eps) -> (Tensor, Tensor)",
        reference=reference,
        fake=fake,
        tolerance=ELEMENTWISE,
        samples=samples,
    )
)
