"""Rotary embedding and the write to a paged cache, together or alone; a program a head."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _turn(
    query,
    key,
    value,
    positions,
    table,
    query_out,
    key_out,
    cache,
    slots,
    query_stride,
    key_stride,
    value_stride,
    half_cache,
    heads: tl.constexpr,
    kv_heads: tl.constexpr,
    size: tl.constexpr,
    half: tl.constexpr,
    rotate: tl.constexpr,
    write: tl.constexpr,
    block: tl.constexpr,
):
    """``half_cache`` is the number of elements before the cache's values; ``half`` of the rotation.

    Heads are numbered: queries, then keys, then values. Without ``rotate`` there are no queries.
    """
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    i = tl.arange(0, block)
    inside = i < size
    source = query + token * query_stride + head * size
    target = query_out + (token * heads + head) * size
    is_key = (head >= heads) & (head < heads + kv_heads)
    if head >= heads:
        source = key + token * key_stride + (head - heads) * size
        target = key_out + (token * kv_heads + head - heads) * size
        if write:
            slot = tl.load(slots + token)
            target = cache + (slot * kv_heads + head - heads) * size
            if not is_key:
                source = value + token * value_stride + (head - heads - kv_heads) * size
                target = cache + half_cache + (slot * kv_heads + head - heads - kv_heads) * size
    x = tl.load(source + i, mask=inside, other=0.0)
    if rotate:  # noqa: SIM102 (one is decided when the kernel is compiled)
        if head < heads + kv_heads:
            position = tl.load(positions + token)
            turned = i < 2 * half
            first = i < half
            partner = tl.where(first, i + half, i - half)
            angle = tl.where(first, i, i - half)
            row = table + position * 2 * half
            cos = tl.load(row + angle, mask=turned, other=1.0).to(tl.float32)
            sin = tl.load(row + half + angle, mask=turned, other=0.0).to(tl.float32)
            other = tl.load(source + partner, mask=turned, other=0.0).to(tl.float32)
            sign = tl.where(first, -1.0, 1.0)
            x = (x.to(tl.float32) * cos + sign * other * sin).to(x.dtype)
    tl.store(target + i, x, mask=inside)


def _launch(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    positions: torch.Tensor,
    table: torch.Tensor,
    query_out: torch.Tensor,
    key_out: torch.Tensor,
    cache: torch.Tensor,
    slots: torch.Tensor,
    *,
    heads: int,
    rotate: bool,
    write: bool,
) -> None:
    tokens, kv_heads, size = key.shape
    if not tokens:
        return
    _turn[(tokens, heads + (2 if write else 1) * kv_heads)](
        query,
        key,
        value,
        positions,
        table,
        query_out,
        key_out,
        cache,
        slots,
        query.stride(0),
        key.stride(0),
        value.stride(0),
        cache.numel() // 2,
        heads=heads,
        kv_heads=kv_heads,
        size=size,
        half=table.shape[-1] // 2 if rotate else 0,
        rotate=rotate,
        write=write,
        block=triton.next_power_of_2(size),
        num_warps=1,
    )


def rotary_embedding(
    query: torch.Tensor, key: torch.Tensor, positions: torch.Tensor, cos_sin_cache: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """See :mod:`runtime.core.ops.rotary_embedding`."""
    query_out, key_out = query.new_empty(query.shape), key.new_empty(key.shape)
    _launch(
        query,
        key,
        key,
        positions,
        cos_sin_cache,
        query_out,
        key_out,
        key_out,
        positions,
        heads=query.shape[1],
        rotate=True,
        write=False,
    )
    return query_out, key_out


def rotary_write_kv_cache(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    kv_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> torch.Tensor:
    """See :mod:`runtime.core.ops.rotary_write_kv_cache`."""
    out = query.new_empty(query.shape)
    _launch(
        query,
        key,
        value,
        positions,
        cos_sin_cache,
        out,
        out,
        kv_cache,
        slot_mapping,
        heads=query.shape[1],
        rotate=True,
        write=True,
    )
    return out


def write_kv_cache(
    key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, slot_mapping: torch.Tensor
) -> None:
    """See :mod:`runtime.core.ops.write_kv_cache`."""
    _launch(
        key,
        key,
        value,
        slot_mapping,
        kv_cache,
        kv_cache,
        kv_cache,
        kv_cache,
        slot_mapping,
        heads=0,
        rotate=False,
        write=True,
    )
