"""Gates of feed-forward layers: ``act(x[..., :N]) * x[..., N:]``."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def _gate(x, out, width, gelu: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * block + tl.arange(0, block)
    inside = columns < width
    start = x + row * 2 * width + columns
    gate = tl.load(start, mask=inside, other=0.0)
    up = tl.load(start + width, mask=inside, other=0.0)
    wide = gate.to(tl.float32)
    if gelu:
        # tanh(u) = 2 sigmoid(2 u) - 1, so half of 1 + tanh(u) is sigmoid(2 u).
        active = wide * tl.sigmoid(1.5957691216057308 * (wide + 0.044715 * wide * wide * wide))
    else:
        active = wide * tl.sigmoid(wide)
    tl.store(out + row * width + columns, active.to(gate.dtype) * up, mask=inside)


def _launch(x: torch.Tensor, gelu: bool) -> torch.Tensor:
    width = x.shape[-1] // 2
    out = x.new_empty((*x.shape[:-1], width))
    if out.numel():
        grid = (out.numel() // width, triton.cdiv(width, BLOCK))
        _gate[grid](x, out, width, gelu=gelu, block=BLOCK, num_warps=4)
    return out


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """See :mod:`runtime.core.ops.silu_and_mul`."""
    return _launch(x, False)


def gelu_tanh_and_mul(x: torch.Tensor) -> torch.Tensor:
    """See :mod:`runtime.core.ops.gelu_tanh_and_mul`."""
    return _launch(x, True)
