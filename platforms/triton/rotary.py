"""Rotary embedding and the write to a paged cache, together or alone; a program a token."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _turn_heads(
    source,
    target,
    cos,
    sin,
    heads: tl.constexpr,
    size: tl.constexpr,
    half: tl.constexpr,
    head_block: tl.constexpr,
    half_block: tl.constexpr,
    rest_block: tl.constexpr,
):
    """All heads of a token: both halves of the rotated part, then what is left of each head."""
    head = tl.arange(0, head_block)[:, None]
    i = tl.arange(0, half_block)[None, :]
    inside = (head < heads) & (i < half)
    place = head * size + i
    first = tl.load(source + place, mask=inside, other=0.0)
    second = tl.load(source + place + half, mask=inside, other=0.0)
    x, y = first.to(tl.float32), second.to(tl.float32)
    tl.store(target + place, (x * cos - y * sin).to(first.dtype), mask=inside)
    tl.store(target + place + half, (y * cos + x * sin).to(first.dtype), mask=inside)
    if rest_block > 0:
        r = tl.arange(0, rest_block)[None, :] + 2 * half
        left = (head < heads) & (r < size)
        rest = tl.load(source + head * size + r, mask=left, other=0.0)
        tl.store(target + head * size + r, rest, mask=left)


@triton.jit
def _copy_row(source, target, count: tl.constexpr, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(target + i, tl.load(source + i, mask=i < count, other=0.0), mask=i < count)


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
    write: tl.constexpr,
    query_block: tl.constexpr,
    key_block: tl.constexpr,
    half_block: tl.constexpr,
    rest_block: tl.constexpr,
    row_block: tl.constexpr,
):
    """One token. ``half_cache`` elements of the cache are keys, values follow."""
    token = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, half_block)
    row = table + tl.load(positions + token) * 2 * half + i
    cos = tl.load(row, mask=i < half, other=0.0).to(tl.float32)[None, :]
    sin = tl.load(row + half, mask=i < half, other=0.0).to(tl.float32)[None, :]
    _turn_heads(
        query + token * query_stride, query_out + token * heads * size, cos, sin,
        heads, size, half, query_block, half_block, rest_block,
    )  # fmt: skip
    if write:
        place = tl.load(slots + token) * kv_heads * size
        target = cache + place
        source = value + token * value_stride
        _copy_row(source, cache + half_cache + place, kv_heads * size, row_block)
    else:
        target = key_out + token * kv_heads * size
    _turn_heads(
        key + token * key_stride, target, cos, sin,
        kv_heads, size, half, key_block, half_block, rest_block,
    )  # fmt: skip


@triton.jit
def _write(
    key,
    value,
    cache,
    slots,
    key_stride,
    value_stride,
    half_cache,
    count: tl.constexpr,
    block: tl.constexpr,
):
    """One token's ``count`` elements of keys and of values."""
    token = tl.program_id(0).to(tl.int64)
    place = tl.load(slots + token) * count
    _copy_row(key + token * key_stride, cache + place, count, block)
    _copy_row(value + token * value_stride, cache + half_cache + place, count, block)


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
    write: bool,
) -> None:
    tokens, heads, size = query.shape
    kv_heads, half = key.shape[1], table.shape[-1] // 2
    if not tokens:
        return
    rest = size - 2 * half
    _turn[(tokens,)](
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
        half=half,
        write=write,
        query_block=triton.next_power_of_2(heads),
        key_block=triton.next_power_of_2(kv_heads),
        half_block=triton.next_power_of_2(half),
        rest_block=triton.next_power_of_2(rest) if rest else 0,
        row_block=triton.next_power_of_2(kv_heads * size),
        num_warps=4 if heads * size <= 8192 else 8,
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
        write=True,
    )
    return out


def write_kv_cache(
    key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, slot_mapping: torch.Tensor
) -> None:
    """See :mod:`runtime.core.ops.write_kv_cache`."""
    tokens, heads, size = key.shape
    if tokens:
        _write[(tokens,)](
            key,
            value,
            kv_cache,
            slot_mapping,
            key.stride(0),
            value.stride(0),
            kv_cache.numel() // 2,
            count=heads * size,
            block=triton.next_power_of_2(heads * size),
            num_warps=4,
        )
