"""Attention over a paged cache [2, num_blocks, block_size, K, D]: decodes and prefills.

The softmax is computed in one pass over the keys (Milakov and Gimelshein 2018, arXiv:1805.02867;
Dao et al. 2022, arXiv:2205.14135). A decode's keys are divided among programs, whose results a
second kernel merges by their log-sum-exp ("flash decoding", Dao et al. 2023).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

KEYS = 64
"""Key positions of one round."""
LOG2_E = 1.4426950408889634


@triton.jit
def _soft_cap(logits, cap: tl.constexpr):
    # tanh(u) = 2 sigmoid(2 u) - 1
    return cap * (2.0 * tl.sigmoid(logits * (2.0 / cap)) - 1.0)


@triton.jit
def _decode(
    query,
    cache,
    table,
    lengths,
    out,
    part_out,
    part_lse,
    scale,
    query_stride,
    table_stride,
    half_cache,
    heads: tl.constexpr,
    kv_heads: tl.constexpr,
    size: tl.constexpr,
    block_size: tl.constexpr,
    window: tl.constexpr,
    cap: tl.constexpr,
    splits: tl.constexpr,
    rows: tl.constexpr,
    width: tl.constexpr,
    keys: tl.constexpr,
):
    """A program: one request, one key head with its ``heads / kv_heads`` queries, one split."""
    request = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    group: tl.constexpr = heads // kv_heads
    length = tl.load(lengths + request)
    first = 0
    if window > 0:
        first = tl.maximum(length - window, 0) // keys * keys
    share = tl.cdiv(tl.cdiv(length - first, splits), keys) * keys
    start = first + split * share
    stop = tl.minimum(start + share, length)

    r = tl.arange(0, rows)
    d = tl.arange(0, width)
    n = tl.arange(0, keys)
    head = kv_head * group + r
    q_inside = (r[:, None] < group) & (d[None, :] < size)
    q = tl.load(
        query + request * query_stride + head[:, None] * size + d[None, :], mask=q_inside, other=0.0
    )
    most = tl.full((rows,), float("-inf"), tl.float32)
    total = tl.zeros((rows,), tl.float32)
    acc = tl.zeros((rows, width), tl.float32)
    for position in range(start, stop, keys):
        p = position + n
        inside = p < stop
        block = tl.load(table + request * table_stride + p // block_size, mask=inside, other=0)
        slot = block.to(tl.int64) * block_size + p % block_size
        place = (slot * kv_heads + kv_head) * size
        kv_inside = inside[:, None] & (d[None, :] < size)
        k = tl.load(cache + place[:, None] + d[None, :], mask=kv_inside, other=0.0)
        v = tl.load(cache + half_cache + place[:, None] + d[None, :], mask=kv_inside, other=0.0)
        logits = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        if cap > 0:
            logits = _soft_cap(logits, cap)
        visible = inside
        if window > 0:
            visible = visible & (p >= length - window)
        logits = tl.where(visible[None, :], logits * 1.4426950408889634, float("-inf"))
        new_most = tl.maximum(most, tl.max(logits, axis=1))
        # Where nothing was visible so far, exp2(-inf - -inf) would be no number.
        base = tl.where(new_most == float("-inf"), 0.0, new_most)
        weights = tl.exp2(logits - base[:, None])
        fade = tl.exp2(most - base)
        total = total * fade + tl.sum(weights, axis=1)
        acc = acc * fade[:, None]
        acc = tl.dot(weights.to(v.dtype), v, acc, input_precision="ieee")
        most = new_most
    safe = tl.where(total > 0, total, 1.0)
    result = acc / safe[:, None]
    if splits == 1:
        tl.store(
            out + (request * heads + head)[:, None] * size + d[None, :],
            result.to(out.dtype.element_ty),
            mask=q_inside,
        )
    else:
        place = (request * heads + head) * splits + split
        tl.store(part_out + place[:, None] * width + d[None, :], result, mask=q_inside)
        tl.store(part_lse + place, most + tl.log2(safe), mask=r < group)


@triton.jit
def _merge(
    part_out,
    part_lse,
    out,
    size: tl.constexpr,
    splits: tl.constexpr,
    width: tl.constexpr,
):
    """A program: one request and head; ``splits`` is a power of two."""
    row = tl.program_id(0).to(tl.int64)
    s = tl.arange(0, splits)
    d = tl.arange(0, width)
    lse = tl.load(part_lse + row * splits + s)
    weights = tl.exp2(lse - tl.max(lse, axis=0))
    parts = tl.load(part_out + (row * splits + s)[:, None] * width + d[None, :])
    merged = tl.sum(parts * weights[:, None], axis=0) / tl.sum(weights, axis=0)
    tl.store(out + row * size + d, merged.to(out.dtype.element_ty), mask=d < size)


@triton.jit
def _prefill_keys(
    q,
    position,
    acc,
    most,
    total,
    cache,
    row,
    start,
    stop,
    end,
    scale,
    half_cache,
    kv_head,
    kv_heads: tl.constexpr,
    size: tl.constexpr,
    block_size: tl.constexpr,
    window: tl.constexpr,
    cap: tl.constexpr,
    masked: tl.constexpr,
    width: tl.constexpr,
    keys: tl.constexpr,
):
    n = tl.arange(0, keys)
    d = tl.arange(0, width)
    for first in range(start, stop, keys):
        p = first + n
        if masked:
            block = tl.load(row + p // block_size, mask=p < end, other=0)
        else:
            block = tl.load(row + p // block_size)
        slot = block.to(tl.int64) * block_size + p % block_size
        place = (slot * kv_heads + kv_head) * size
        if masked or size != width:
            inside = (p[:, None] < end) & (d[None, :] < size)
            k = tl.load(cache + place[:, None] + d[None, :], mask=inside, other=0.0)
            v = tl.load(cache + half_cache + place[:, None] + d[None, :], mask=inside, other=0.0)
        else:
            k = tl.load(cache + place[:, None] + d[None, :])
            v = tl.load(cache + half_cache + place[:, None] + d[None, :])
        # A cache of float8.
        k, v = k.to(q.dtype), v.to(q.dtype)
        logits = tl.dot(q, tl.trans(k), input_precision="ieee")
        if cap > 0:
            logits = _soft_cap(logits * scale, cap) * 1.4426950408889634
        else:
            logits = logits * (scale * 1.4426950408889634)
        if masked:
            visible = p[None, :] <= position[:, None]
            if window > 0:
                visible = visible & (p[None, :] > position[:, None] - window)
            logits = tl.where(visible, logits, float("-inf"))
        new_most = tl.maximum(most, tl.max(logits, axis=1))
        base = new_most
        if masked:
            base = tl.where(new_most == float("-inf"), 0.0, new_most)
        weights = tl.exp2(logits - base[:, None])
        fade = tl.exp2(most - base)
        total = total * fade + tl.sum(weights, axis=1)
        acc = acc * fade[:, None]
        acc = tl.dot(weights.to(v.dtype), v, acc, input_precision="ieee")
        most = new_most
    return acc, most, total


@triton.jit
def _prefill(
    query,
    cache,
    table,
    lengths,
    starts,
    tile_request,
    tile_first,
    out,
    scale,
    query_stride,
    table_stride,
    half_cache,
    heads: tl.constexpr,
    kv_heads: tl.constexpr,
    size: tl.constexpr,
    block_size: tl.constexpr,
    window: tl.constexpr,
    cap: tl.constexpr,
    rows: tl.constexpr,
    width: tl.constexpr,
    keys: tl.constexpr,
):
    """A program: ``rows`` tokens of one request, one head."""
    tile = tl.program_id(1)
    head = tl.program_id(0)
    kv_head = head // (heads // kv_heads)
    request = tl.load(tile_request + tile).to(tl.int64)
    first = tl.load(tile_first + tile)
    begin = tl.load(starts + request)
    count = tl.load(starts + request + 1) - begin
    length = tl.load(lengths + request)
    before = length - count

    i = first + tl.arange(0, rows)
    d = tl.arange(0, width)
    token = (begin + i).to(tl.int64)
    inside = (i[:, None] < count) & (d[None, :] < size)
    q = tl.load(
        query + token[:, None] * query_stride + head * size + d[None, :], mask=inside, other=0.0
    )
    position = before + i
    most = tl.full((rows,), float("-inf"), tl.float32)
    total = tl.zeros((rows,), tl.float32)
    acc = tl.zeros((rows, width), tl.float32)
    row = table + request * table_stride
    end = tl.minimum(before + first + rows, length)
    # Key rounds that every row sees whole, then those that need a mask.
    whole = (before + first + 1) // keys * keys
    low = 0
    if window > 0:
        low = tl.maximum(before + first - window + 1, 0) // keys * keys
        whole = low
    acc, most, total = _prefill_keys(
        q, position, acc, most, total, cache, row, low, whole, end, scale, half_cache, kv_head,
        kv_heads, size, block_size, window, cap, False, width, keys,
    )  # fmt: skip
    acc, most, total = _prefill_keys(
        q, position, acc, most, total, cache, row, whole, end, end, scale, half_cache, kv_head,
        kv_heads, size, block_size, window, cap, True, width, keys,
    )  # fmt: skip
    result = acc / tl.where(total > 0, total, 1.0)[:, None]
    tl.store(
        out + (token * heads + head)[:, None] * size + d[None, :],
        result.to(out.dtype.element_ty),
        mask=inside,
    )


def prefill_rows(dtype: torch.dtype, size: int) -> int:
    """Tokens of a program of the prefill kernel."""
    if dtype.itemsize == 4:
        return 32
    return 128 if size <= 128 else 64


def decode(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    out: torch.Tensor,
    workspace: tuple[torch.Tensor, torch.Tensor] | None,
    splits: int,
    scale: float,
    window: int | None,
    cap: float | None,
) -> None:
    """One token of each request: query and out [R, H, D]; out is contiguous.

    ``workspace`` of more than one split (a power of two): float32 of [R, H, splits, W] and of
    [R, H, splits], W being D rounded up to a power of two.
    """
    requests, heads, size = query.shape
    _, _, block_size, kv_heads, _ = kv_cache.shape
    parts, lse = workspace if workspace is not None else (out, out)
    width = max(16, triton.next_power_of_2(size))
    wide = query.dtype.itemsize == 4 or width > 128
    _decode[(requests, kv_heads, splits)](
        query,
        kv_cache,
        block_table,
        seq_lens,
        out,
        parts,
        lse,
        scale,
        query.stride(0),
        block_table.stride(0),
        kv_cache.numel() // 2,
        heads=heads,
        kv_heads=kv_heads,
        size=size,
        block_size=block_size,
        window=window or 0,
        cap=cap or 0.0,
        splits=splits,
        rows=max(16, triton.next_power_of_2(heads // kv_heads)),
        width=width,
        keys=32 if wide else KEYS,
        num_warps=4,
        num_stages=1 if query.dtype.itemsize == 4 else 3,
    )
    if splits > 1:
        _merge[(requests * heads,)](
            parts, lse, out, size=size, splits=splits, width=width, num_warps=1
        )


def prefill(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    query_start_loc: torch.Tensor,
    tile_request: torch.Tensor,
    tile_first: torch.Tensor,
    out: torch.Tensor,
    scale: float,
    window: int | None,
    cap: float | None,
) -> None:
    """Tiles of :func:`prefill_rows` tokens: request and first token (in its request) of each."""
    _, heads, size = query.shape
    _, _, block_size, kv_heads, _ = kv_cache.shape
    narrow = query.dtype.itemsize < 4
    width = max(16, triton.next_power_of_2(size))
    _prefill[(heads, len(tile_request))](
        query,
        kv_cache,
        block_table,
        seq_lens,
        query_start_loc,
        tile_request,
        tile_first,
        out,
        scale,
        query.stride(0),
        block_table.stride(0),
        kv_cache.numel() // 2,
        heads=heads,
        kv_heads=kv_heads,
        size=size,
        block_size=block_size,
        window=window or 0,
        cap=cap or 0.0,
        rows=prefill_rows(query.dtype, size),
        width=width,
        keys=KEYS if narrow and width <= 128 else 32,
        num_warps=4 if width <= 128 else 8,
        num_stages=3 if narrow and width <= 128 else 1,
    )
