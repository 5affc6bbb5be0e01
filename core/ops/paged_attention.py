"""Attention of a ragged batch over a paged KV cache (Kwon et al. 2023, arXiv:2309.06180)."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from runtime.core.ops.registry import OpDef, Sample, define_op
from runtime.core.ops.samples import REDUCTION, normal


def reference(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    query_start_loc: torch.Tensor,
    scale: float,
    sliding_window: int | None,
    logits_soft_cap: float | None,
) -> torch.Tensor:
    """Causal attention: each token sees its request's keys up to itself.

    query [T, H, D]; kv_cache [2, num_blocks, block_size, K, D] with H a multiple of K (grouped
    queries); block_table [R, max_blocks] int32; seq_lens [R] int32; query_start_loc [R + 1]
    int32. The tokens of request r are ``query_start_loc[r] : query_start_loc[r + 1]``, the last
    of its ``seq_lens[r]``; rows of query past ``query_start_loc[R]`` are padding and give zeros.
    ``sliding_window`` w: a token sees itself and the w - 1 before it. ``logits_soft_cap`` c:
    logits become ``c * tanh(logits / c)``. Logits and softmax are float32, or float64 for
    float64 queries. Returns [T, H, D] in query's dtype.

    All keys of a batch's longest request are gathered for every token: this says what is meant
    and stays on the device, it is not meant to be fast.
    """
    tokens = torch.arange(query.shape[0], device=query.device)
    starts = query_start_loc.to(torch.int64)
    request = (tokens[:, None] >= starts[None, 1:]).sum(-1)
    padding = request == seq_lens.shape[0]
    request = request.clamp_max(seq_lens.shape[0] - 1)
    lengths = seq_lens.to(torch.int64).index_select(0, request)
    ends = starts.index_select(0, request + 1)
    position = lengths - (ends - tokens)
    keys, values = _gather(kv_cache, block_table.index_select(0, request))
    key_position = torch.arange(keys.shape[1], device=query.device)[None, :]
    visible = key_position <= position[:, None]
    if sliding_window is not None:
        visible = visible & (key_position > position[:, None] - sliding_window)
    visible = visible & ~padding[:, None]
    return _attend(query, keys, values, visible, scale, logits_soft_cap)


def _gather(kv_cache: torch.Tensor, tables: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values [T, max_blocks * block_size, K, D] of each row's blocks."""
    rows, width = tables.shape
    blocks = kv_cache.index_select(1, tables.flatten().to(torch.int64))
    flat = blocks.reshape(2, rows, width * kv_cache.shape[2], *kv_cache.shape[3:])
    keys, values = flat.unbind(0)
    return keys, values


def _attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    visible: torch.Tensor,
    scale: float,
    soft_cap: float | None,
) -> torch.Tensor:
    rows, heads, size = query.shape
    kv_heads = keys.shape[2]
    wide = torch.promote_types(query.dtype, torch.float32)
    grouped = query.reshape(rows, kv_heads, heads // kv_heads, size).to(wide)
    logits = torch.einsum("tkgd,tskd->tkgs", grouped, keys.to(wide)) * scale
    if soft_cap is not None:
        logits = soft_cap * torch.tanh(logits / soft_cap)
    logits = logits.masked_fill(~visible[:, None, None, :], -torch.inf)
    # A padding row sees nothing: its weights are not numbers and become zeros.
    weights = torch.softmax(logits, dim=-1).nan_to_num(0.0)
    out = torch.einsum("tkgs,tskd->tkgd", weights, values.to(wide))
    return out.reshape(rows, heads, size).to(query.dtype)


def fake(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    query_start_loc: torch.Tensor,
    scale: float,
    sliding_window: int | None,
    logits_soft_cap: float | None,
) -> torch.Tensor:
    """A contiguous tensor of query's shape."""
    return query.new_empty(query.shape)


def samples(dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    """Ragged batches: decodes, prefills and chunks; permuted blocks; windows and soft caps."""
    for heads, kv_heads, size, block_size, window, cap in (
        (4, 4, 64, 16, None, None),
        (9, 3, 64, 16, None, None),
        (4, 1, 80, 8, 9, None),
        (2, 2, 24, 1, None, 5.0),
        (8, 2, 128, 32, 20, 30.0),
    ):
        computed, new = [0, 31, 7, 16, 0], [13, 1, 9, 1, 1]
        lengths = torch.tensor(computed, dtype=torch.int32) + torch.tensor(new, dtype=torch.int32)
        width = -(-int(lengths.max()) // block_size)
        total = len(new) * width + 1
        order = torch.randperm(total - 1, generator=generator) + 1
        table = order.to(torch.int32).reshape(len(new), width)
        starts = torch.tensor([0, *torch.tensor(new).cumsum(0).tolist()], dtype=torch.int32)
        query = normal((sum(new) + 2, heads, size), dtype, generator)
        cache = normal((2, total, block_size, kv_heads, size), dtype, generator)
        yield query, cache, table, lengths, starts, size**-0.5, window, cap


paged_attention = define_op(
    OpDef(
        name="paged_attention",
        schema=(
            "(Tensor query, Tensor kv_cache, Tensor block_table, Tensor seq_lens,"
            " Tensor query_start_loc, float scale, int? sliding_window,"
            " float? logits_soft_cap) -> Tensor"
        ),
        reference=reference,
        fake=fake,
        tolerance=REDUCTION,
        samples=samples,
    )
)
