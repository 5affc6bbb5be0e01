"""The most likely token of each row."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from runtime.core.ops.registry import OpDef, Sample, define_op
from runtime.core.ops.samples import CHOICE, normal


def reference(logits: torch.Tensor) -> torch.Tensor:
    """Place of the largest logit of each row, the first of equal ones.

    logits [N, V] of any float dtype, no NaN among them; returns [N] int64.
    """
    return logits.argmax(dim=-1)


def fake(logits: torch.Tensor) -> torch.Tensor:
    """[N] int64."""
    return logits.new_empty(logits.shape[:1], dtype=torch.int64)


def samples(dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    """Vocabularies of usual and odd sizes. Each row has one largest logit: ties are not fixed."""
    for rows, vocab in ((1, 49153), (5, 1000), (3, 17), (2, 1)):
        logits = normal((rows, vocab), dtype, generator, 3.0)
        best = torch.randint(vocab, (rows, 1), generator=generator)
        yield (logits.scatter_(1, best, float(logits.max()) + 1),)


greedy_sample = define_op(
    OpDef(
        name="greedy_sample",
        schema="(Tensor logits) -> Tensor",
        reference=reference,
        fake=fake,
        tolerance=CHOICE,
        samples=samples,
    )
)
