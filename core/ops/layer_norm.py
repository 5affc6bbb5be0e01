"""Layer normalisation (Ba et al. 2016, arXiv:1607.06450), with the residual addition before it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from runtime.core.ops.registry import OpDef, Sample, define_op
from runtime.core.ops.samples import ELEMENTWISE, normal


def reference(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor,
    bias: torch.Tensor,
    eps: float,
) -> torch.Tensor:
    """``(y - mean(y)) / sqrt(var(y) + eps) * weight + bias``, y = x + residual, over the last dim.

    x and residual [..., N] of one dtype, weight and bias [N]; returns x's shape and dtype. The sum
    is in x's dtype, as in transformers; mean and variance are float32.
    """
    total = x if residual is None else x + residual
    return F.layer_norm(total, total.shape[-1:], weight, bias, eps)


def fake(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor,
    bias: torch.Tensor,
    eps: float,
) -> torch.Tensor:
    """A contiguous tensor of x's shape."""
    return x.new_empty(x.shape)


def samples(dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    """Rows of usual and odd widths, with and without a residual."""
    for rows, width, added in ((1, 64, True), (7, 384, True), (3, 80, False), (33, 1000, True)):
        x = normal((rows, width), dtype, generator, 3.0)
        residual = normal((rows, width), dtype, generator) if added else None
        weight, bias = (normal((width,), dtype, generator) for _ in range(2))
        yield x, residual, weight, bias, 1e-12


layer_norm = define_op(
    OpDef(
        name="layer_norm",
        schema="(Tensor x, Tensor? residual, Tensor weight, Tensor bias, float eps) -> Tensor",
        reference=reference,
        fake=fake,
        tolerance=ELEMENTWISE,
        samples=samples,
    )
)
