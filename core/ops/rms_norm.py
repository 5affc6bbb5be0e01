"""Root mean square normalisation (Zhang & Sennrich 2019, arXiv:1910.07467)."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from runtime.core.ops.registry import OpDef, Sample, define_op
from runtime.core.ops.samples import ELEMENTWISE, normal


def reference(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """``x / sqrt(mean(x**2) + eps) * weight`` over the last dimension.

    x [..., N]; weight [N]; returns x's shape and dtype. The mean and the division are float32,
    and the product with the weight is in x's dtype, as in transformers.
    """
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * (wide * scale).to(x.dtype)


def fake(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """A tensor like x."""
    return torch.empty_like(x)


def samples(dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    """Rows of usual and odd widths."""
    for rows, width in ((1, 64), (7, 576), (3, 80), (33, 1000), (2, 1)):
        x = normal((rows, width), dtype, generator, 3.0)
        yield x, normal((width,), dtype, generator), 1e-5


rms_norm = define_op(
    OpDef(
        name="rms_norm",
        schema="(Tensor x, Tensor weight, float eps) -> Tensor",
        reference=reference,
        fake=fake,
        tolerance=ELEMENTWISE,
        samples=samples,
    )
)
