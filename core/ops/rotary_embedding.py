"""Rotary position embedding (Su et al. 2021, arXiv:2104.09864)."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from runtime.core.ops.registry import OpDef, Sample, define_op
from runtime.core.ops.samples import ELEMENTWISE, normal


def reference(
    query: torch.Tensor, key: torch.Tensor, positions: torch.Tensor, cos_sin_cache: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotate the first ``R`` elements of each head by its token's position.

    query [T, H, D], key [T, K, D]; positions [T] int64; cos_sin_cache [P, R] in query's dtype,
    R <= D even: row p has the cosines of position p in its first half, the sines in its second.
    Element i turns with element i + R/2 (the layout of GPT-NeoX). Returns new tensors.
    """
    cos, sin = cos_sin_cache.index_select(0, positions).unsqueeze(1).chunk(2, dim=-1)
    return _rotate(query, cos, sin), _rotate(key, cos, sin)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = cos.shape[-1]
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    turned = (first * cos - second * sin, second * cos + first * sin, rest)
    return torch.cat(turned, dim=-1)


def fake(
    query: torch.Tensor, key: torch.Tensor, positions: torch.Tensor, cos_sin_cache: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Contiguous tensors of query's and key's shapes."""
    return query.new_empty(query.shape), key.new_empty(key.shape)


def samples(dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    """Full and partial rotation, one head and many."""
    for tokens, heads, kv_heads, size, rotated in (
        (1, 1, 1, 64, 64),
        (9, 9, 3, 64, 64),
        (4, 4, 2, 80, 32),
        (33, 2, 1, 24, 24),
    ):
        angles = torch.rand((50, rotated // 2), generator=generator) * 6.2
        cache = torch.cat((angles.cos(), angles.sin()), dim=-1).to(dtype)
        positions = torch.randint(0, 50, (tokens,), generator=generator)
        query = normal((tokens, heads, size), dtype, generator)
        yield query, normal((tokens, kv_heads, size), dtype, generator), positions, cache


rotary_embedding = define_op(
    OpDef(
        name="rotary_embedding",
        schema=(
            "(Tensor query, Tensor key, Tensor positions, Tensor cos_sin_cache) -> (Tensor, Tensor)"
        ),
        reference=reference,
        fake=fake,
        tolerance=ELEMENTWISE,
        samples=samples,
    )
)
