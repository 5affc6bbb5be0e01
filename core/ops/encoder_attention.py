"""Attention among the tokens of each text, in both directions (arXiv:1706.03762)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, groupby

import torch
import torch.nn.functional as F

from runtime.core.ops.registry import OpDef, Sample, define_op
from runtime.core.ops.samples import REDUCTION, normal


def reference(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    query_start_loc: torch.Tensor,
    lengths: list[int],
    scale: float,
) -> torch.Tensor:
    """Each token sees all tokens of its own text, and none of another's.

    query [T, H, D], key and value [T, K, D] with H a multiple of K (grouped queries), of one dtype;
    query_start_loc [R + 1] int32: the tokens of text r are ``query_start_loc[r] :
    query_start_loc[r + 1]``; lengths has the same on the host, R lengths above 0. Rows past the
    last text are padding and give zeros. Returns [T, H, D] in query's dtype.
    """
    heads, kv_heads, size = query.shape[1], key.shape[1], query.shape[2]
    out = torch.zeros_like(query)
    start = 0
    # Neighbours of one length are computed together.
    for length, group in groupby(lengths):
        count = len(list(group))
        stop = start + count * length
        own, keys, values = (
            tensor[start:stop].view(count, length, -1, size).transpose(1, 2)
            for tensor in (query, key, value)
        )
        if heads != kv_heads:
            keys = keys.repeat_interleave(heads // kv_heads, dim=1)
            values = values.repeat_interleave(heads // kv_heads, dim=1)
        attended = F.scaled_dot_product_attention(own, keys, values, scale=scale)
        out[start:stop] = attended.transpose(1, 2).reshape(count * length, heads, size)
        start = stop
    return out


def fake(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    query_start_loc: torch.Tensor,
    lengths: list[int],
    scale: float,
) -> torch.Tensor:
    """A contiguous tensor of query's shape."""
    return query.new_empty(query.shape)


def samples(dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    """One text, texts of one length and of several, single tokens, grouped queries, padding."""
    for heads, kv_heads, size, lengths, padding in (
        (12, 12, 32, [13], 0),
        (4, 4, 64, [7, 7, 7], 0),
        (9, 3, 64, [1, 33, 2, 2, 17, 1], 0),
        (2, 2, 24, [1], 3),
        (4, 1, 80, [65, 8], 2),
    ):
        total = sum(lengths) + padding
        starts = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)
        query = normal((total, heads, size), dtype, generator)
        key = normal((total, kv_heads, size), dtype, generator)
        value = normal((total, kv_heads, size), dtype, generator)
        yield query, key, value, starts, lengths, size**-0.5


encoder_attention = define_op(
    OpDef(
        name="encoder_attention",
        schema=(
            "(Tensor query, Tensor key, Tensor value, Tensor query_start_loc, int[] lengths,"
            " float scale) -> Tensor"
        ),
        reference=reference,
        fake=fake,
        tolerance=REDUCTION,
        samples=samples,
    )
)
