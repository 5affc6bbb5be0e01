"""The product with a weight matrix."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from runtime.core.ops.registry import OpDef, Sample, define_op
from runtime.core.ops.samples import REDUCTION, normal


def reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """``x @ weight.T + bias``.

    x [..., K], weight [N, K] and bias [N] of one dtype; returns [..., N] in it.
    """
    return F.linear(x, weight, bias)


def fake(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """The shape of x, with weight's rows as its last dimension."""
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def samples(dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    """Few rows and many, of usual and odd widths, with and without bias."""
    for rows, inputs, outputs, biased in (
        (1, 576, 100, False),
        (2, 64, 1, True),
        (3, 80, 33, False),
        (7, 1, 5, True),
        (16, 100, 67, True),
        (65, 48, 31, False),
    ):
        x = normal((rows, inputs), dtype, generator)
        weight = normal((outputs, inputs), dtype, generator, inputs**-0.5)
        yield x, weight, normal((outputs,), dtype, generator) if biased else None


linear = define_op(
    OpDef(
        name="linear",
        schema="(Tensor x, Tensor weight, Tensor? bias) -> Tensor",
        reference=reference,
        fake=fake,
        tolerance=REDUCTION,
        samples=samples,
    )
)
