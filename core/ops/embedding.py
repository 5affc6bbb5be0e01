"""Rows of a table: token embeddings."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from runtime.core.ops.registry import OpDef, Sample, define_op
from runtime.core.ops.samples import ELEMENTWISE, normal


def reference(token_ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """``weight[token_ids]``: token_ids [T] int32 or int64, weight [V, N]; returns [T, N]."""
    return F.embedding(token_ids, weight)


def fake(token_ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """[T, N] in the weight's dtype."""
    return weight.new_empty((*token_ids.shape, weight.shape[1]))


def samples(dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    """One token, and repeated ones."""
    for tokens, vocab, width in ((1, 49153, 64), (33, 100, 80), (7, 1, 17)):
        token_ids = torch.randint(vocab, (tokens,), generator=generator, dtype=torch.int32)
        yield token_ids, normal((vocab, width), dtype, generator)


embedding = define_op(
    OpDef(
        name="embedding",
        schema="(Tensor token_ids, Tensor weight) -> Tensor",
        reference=reference,
        fake=fake,
        tolerance=ELEMENTWISE,
        samples=samples,
    )
)
