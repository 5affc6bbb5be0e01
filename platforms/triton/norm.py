"""Root mean square normalisation, with and without the addition before it: a program a row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _norm(
    x,
    residual,
    weight,
    out,
    total,
    width,
    eps,
    add: tl.constexpr,
    block: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * width
    columns = tl.arange(0, block)
    inside = columns < width
    values = tl.load(x + row + columns, mask=inside, other=0.0)
    if add:
        values += tl.load(residual + row + columns, mask=inside, other=0.0)
        tl.store(total + row + columns, values, mask=inside)
    wide = values.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, axis=0) / width + eps)
    factor = tl.load(weight + columns, mask=inside, other=0.0)
    tl.store(out + row + columns, (wide * scale).to(values.dtype) * factor, mask=inside)


def _launch(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    out: torch.Tensor,
    total: torch.Tensor,
    eps: float,
    add: bool,
) -> None:
    width = x.shape[-1]
    rows = x.numel() // width
    if not rows:
        return
    block = triton.next_power_of_2(width)
    warps = min(max(block // 512, 1), 16)
    _norm[(rows,)](
        x, residual, weight, out, total, width, eps, add=add, block=block, num_warps=warps
    )


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """See :mod:`runtime.core.ops.rms_norm`."""
    out = torch.empty_like(x)
    _launch(x, x, weight, out, out, eps, False)
    return out


def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """See :mod:`runtime.core.ops.fused_add_rms_norm`."""
    out, total = torch.empty_like(x), torch.empty_like(x)
    _launch(x, residual, weight, out, total, eps, True)
    return out, total
