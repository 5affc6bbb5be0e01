"""The gate of a SwiGLU feed-forward layer (Shazeer 2020, arXiv:2002.05202)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from runtime.core.ops.registry import OpDef, Sample, define_op
from runtime.core.ops.samples import ELEMENTWISE, normal


def reference(x: torch.Tensor) -> torch.Tensor:
    """``silu(x[..., :N]) * x[..., N:]`` for x [..., 2 N]; returns [..., N] in x's dtype."""
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up


def fake(x: torch.Tensor) -> torch.Tensor:
    """Half of x's last dimension."""
    return x.new_empty((*x.shape[:-1], x.shape[-1] // 2))


def samples(dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    """Rows of usual and odd widths."""
    for rows, width in ((1, 64), (7, 1536), (3, 17), (33, 100)):
        yield (normal((rows, 2 * width), dtype, generator, 2.0),)


silu_and_mul = define_op(
    OpDef(
        name="silu_and_mul",
        schema="(Tensor x) -> Tensor",
        reference=reference,
        fake=fake,
        tolerance=ELEMENTWISE,
        samples=samples,
    )
)
