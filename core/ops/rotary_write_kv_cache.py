"""Rotary embedding of queries and keys, the keys and values written to a paged cache: one pass."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from runtime.core.ops.registry import OpDef, Sample, define_op
from runtime.core.ops.rotary_embedding import reference as rotate
from runtime.core.ops.samples import ELEMENTWISE, normal
from runtime.core.ops.write_kv_cache import reference as write


def reference(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    kv_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> torch.Tensor:
    """``rotary_embedding``, then ``write_kv_cache`` of the rotated key; returns the query.

    Shapes and dtypes are those of the two ops.
    """
    query, key = rotate(query, key, positions, cos_sin_cache)
    write(key, value, kv_cache, slot_mapping)
    return query


def fake(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    kv_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> torch.Tensor:
    """A contiguous tensor of query's shape."""
    return query.new_empty(query.shape)


def samples(dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    """Full and partial rotation; heads that are parts of merged outputs."""
    for tokens, heads, kv_heads, size, rotated in (
        (1, 9, 3, 64, 64),
        (5, 4, 2, 80, 32),
        (33, 1, 1, 24, 24),
    ):
        angles = torch.rand((50, rotated // 2), generator=generator) * 6.2
        table = torch.cat((angles.cos(), angles.sin()), dim=-1).to(dtype)
        merged = normal((tokens, heads + 2 * kv_heads, size), dtype, generator)
        query, key = merged[:, :heads], merged[:, heads : heads + kv_heads]
        value = merged[:, heads + kv_heads :]
        positions = torch.randint(0, 50, (tokens,), generator=generator)
        cache = normal((2, 4, 16, kv_heads, size), dtype, generator)
        slots = 16 + torch.randperm(48, generator=generator)[:tokens]
        yield query, key, value, positions, table, cache, slots


rotary_write_kv_cache = define_op(
    OpDef(
        name="rotary_write_kv_cache",
        schema=(
            "(Tensor query, Tensor key, Tensor value, Tensor positions, Tensor cos_sin_cache, "
            "Tensor(a!) kv_cache, Tensor slot_mapping) -> Tensor"
        ),
        reference=reference,
        fake=fake,
        tolerance=ELEMENTWISE,
        samples=samples,
        mutates=("kv_cache",),
    )
)
