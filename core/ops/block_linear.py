"""The product with a weight matrix whose rows are blocks of few bits."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from runtime.core.ops.registry import OpDef, Sample, define_op
from runtime.core.ops.samples import REDUCTION, normal
from runtime.core.quantization.block_formats import BLOCK_FORMATS, LOADABLE


def reference(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, format: str
) -> torch.Tensor:
    """``x @ dequantised(weight).T + bias``.

    x [..., K], weight [N, row_bytes] uint8 in the block format, bias [N] of x's dtype; returns
    [..., N] in it.
    """
    values = BLOCK_FORMATS[format].dequantize(weight).to(x.dtype)
    return F.linear(x, values, bias)


def fake(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, format: str
) -> torch.Tensor:
    """The shape of x, with weight's rows as its last dimension."""
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def samples(dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    """Every format that values can be brought into; few rows and many."""
    for index, name in enumerate(LOADABLE):
        rows, outputs, inputs = (1, 2, 17)[index % 3], (33, 16, 5)[index % 3], 96
        kind = BLOCK_FORMATS[name]
        weight = kind.quantize(normal((outputs, inputs), torch.float32, generator, inputs**-0.5))
        bias = normal((outputs,), dtype, generator) if index % 2 else None
        yield normal((rows, inputs), dtype, generator), weight, bias, name


block_linear = define_op(
    OpDef(
        name="block_linear",
        schema="(Tensor x, Tensor weight, Tensor? bias, str format) -> Tensor",
        reference=reference,
        fake=fake,
        tolerance=REDUCTION,
        samples=samples,
    )
)
