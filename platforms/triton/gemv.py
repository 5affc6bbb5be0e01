"""The product of one row with a weight matrix: what it costs is reading the matrix once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

ROWS = 2
"""Output features of a program."""


@triton.jit
def _gemv(x, weight, out, inputs: tl.constexpr, rows: tl.constexpr, block: tl.constexpr):
    """``rows`` output features, whose products are summed at the end."""
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    column = tl.arange(0, block)
    place = weight + row[:, None].to(tl.int64) * inputs + column[None, :]
    total = tl.zeros((rows, block), tl.float32)
    for start in range(0, inputs, block):
        values = tl.load(place + start, eviction_policy="evict_first").to(tl.float32)
        total += values * tl.load(x + start + column).to(tl.float32)[None, :]
    tl.store(out + row, tl.sum(total, axis=1).to(out.dtype.element_ty))


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """See :mod:`runtime.core.ops.linear`; x has one row, and there is no bias."""
    outputs, inputs = weight.shape
    out = x.new_empty((*x.shape[:-1], outputs))
    block = 2048 if inputs % 2048 == 0 else 1024
    _gemv[(outputs // ROWS,)](
        x, weight, out, inputs=inputs, rows=ROWS, block=block, num_warps=4, num_stages=3
    )
    return out
