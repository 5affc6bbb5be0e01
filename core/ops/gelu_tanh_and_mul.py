"""The gate of a GeGLU feed-forward layer (Shazeer 2020, arXiv:2002.05202), by tanh."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from runtime.core.ops.registry import OpDef, define_op
from runtime.core.ops.samples import ELEMENTWISE
from runtime.core.ops.silu_and_mul import fake, samples


def reference(x: torch.Tensor) -> torch.Tensor:
    """``gelu(x[..., :N]) * x[..., N:]`` for x [..., 2 N]; returns [..., N] in x's dtype.

    GELU in its tanh form (Hendrycks and Gimpel 2016, arXiv:1606.08415).
    """
    gate, up = x.chunk(2, dim=-1)
    return F.gelu(gate, approximate="tanh") * up


gelu_tanh_and_mul = define_op(
    OpDef(
        name="gelu_tanh_and_mul",
        schema="(Tensor x) -> Tensor",
        reference=reference,
        fake=fake,
        tolerance=ELEMENTWISE,
        samples=samples,
    )
)
