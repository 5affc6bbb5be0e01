"""Penalties on tokens that a request has seen or given.

Repetition: Keskar et al. 2019 (arXiv:1909.05858), as transformers applies it; presence and
frequency: OpenAI's API.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from runtime.core.ops.registry import OpDef, Sample, define_op
from runtime.core.ops.samples import ELEMENTWISE, normal


def reference(
    logits: torch.Tensor,
    token_ids: torch.Tensor,
    starts: torch.Tensor,
    output_starts: torch.Tensor,
    repetition: torch.Tensor,
    presence: torch.Tensor,
    frequency: torch.Tensor,
) -> None:
    """Change rows of ``logits`` [N, V], of any float dtype, in place.

    Row r's tokens are ``token_ids[starts[r]:starts[r + 1]]``, of which those from
    ``output_starts[r]`` on are its output: token_ids [T], starts [N + 1] and output_starts [N],
    int32. First a logit of any of them is divided by ``repetition[r]`` where positive, else
    multiplied; then each token of the output loses ``presence[r]`` and ``frequency[r]`` times its
    count. The three are [N] float32; 1, 0 and 0 leave a row as it is.
    """
    place = torch.arange(len(token_ids), device=logits.device)
    row = torch.searchsorted(starts[1:].contiguous(), place.int(), right=True)
    # A group is one token of one row. All its members write the same value.
    cell, order = (row * logits.shape[1] + token_ids).sort()
    row = row[order]
    group = torch.cat((cell[:1] * 0, (cell[1:] != cell[:-1]).long())).cumsum(0)
    given = place[order] >= output_starts[row]
    given = given.to(repetition.dtype)
    count = torch.zeros_like(given).index_add_(0, group, given)[group]
    flat = logits.view(-1)
    value = flat[cell].to(torch.promote_types(logits.dtype, torch.float32))
    factor = repetition[row]
    value = torch.where(value > 0, value / factor, value * factor)
    value = value - presence[row] * (count > 0) - frequency[row] * count
    flat.index_copy_(0, cell, value.to(flat.dtype))


def fake(
    logits: torch.Tensor,
    token_ids: torch.Tensor,
    starts: torch.Tensor,
    output_starts: torch.Tensor,
    repetition: torch.Tensor,
    presence: torch.Tensor,
    frequency: torch.Tensor,
) -> None:
    """Nothing is returned."""


def samples(dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    """Rows with many repeated tokens, with none, and with each penalty alone."""
    for vocab in (49153, 50, 7):
        lengths = torch.tensor([100, 0, 40, 1, 300])
        starts = torch.cat((torch.zeros(1), lengths.cumsum(0))).int()
        outputs = (starts[:-1] + lengths * torch.rand(5, generator=generator)).int()
        token_ids = torch.randint(vocab, (int(lengths.sum()),), generator=generator).int()
        logits = normal((5, vocab), dtype, generator, 3.0)
        repetition = torch.tensor([1.3, 1.2, 1.0, 0.8, 1.0])
        presence = torch.tensor([0.5, 0.5, 0.7, 0.0, 0.0])
        frequency = torch.tensor([-0.2, 0.5, 0.0, 0.0, 0.3])
        yield logits, token_ids, starts, outputs, repetition, presence, frequency


apply_penalties = define_op(
    OpDef(
        name="apply_penalties",
        schema="(Tensor(a!) logits, Tensor token_ids, Tensor starts, Tensor output_starts,"
        " Tensor repetition, Tensor presence, Tensor frequency) -> ()",
        reference=reference,
        fake=fake,
        tolerance=ELEMENTWISE,
        samples=samples,
        mutates=("logits",),
    )
)
