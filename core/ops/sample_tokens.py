"""Drawing a token of each row: temperature, min-p, top-k, top-p, then the inverse of the CDF.

Top-k is Fan et al. 2018 (arXiv:1805.04833), top-p Holtzman et al. 2019 (arXiv:1904.09751), min-p
Nguyen et al. 2024 (arXiv:2407.01082).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from runtime.core.ops.registry import OpDef, Sample, define_op
from runtime.core.ops.samples import CHOICE, normal


def reference(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    uniform: torch.Tensor,
) -> torch.Tensor:
    """Token ids [N] int64.

    logits [N, V] of any float dtype; of each row: temperature > 0, top_p in (0, 1], min_p and
    uniform in [0, 1) as [N] float32, top_k [N] int32, where less than 1 or more than V is all.
    Of p = softmax(logits / temperature), min-p keeps p >= min_p x the largest, top-k the k largest
    of those, and top-p, whose probabilities are of those that were kept, each token such that all
    more likely ones have less than top_p. Equal logits are kept together. The token is the first
    in the vocabulary's order at which the kept ones' probabilities sum to more than ``uniform``.
    """
    probs = _kept(logits, temperature, top_k, top_p, min_p)
    sums = probs.cumsum(-1)
    wanted = uniform.to(probs)[:, None] * sums[:, -1:]
    # Sums that rounding leaves below the wanted one: the last token that was kept.
    found = (probs > 0) & ((sums > wanted) | (sums == sums[:, -1:]))
    return found.to(torch.int8).argmax(dim=-1)


def _kept(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
) -> torch.Tensor:
    """Probabilities [N, V], zero where a filter leaves a token out."""
    probs = _probabilities(logits, temperature)
    least = probs.amax(-1, keepdim=True) * min_p.to(probs)[:, None]
    probs = probs.masked_fill(probs < least, 0)
    ordered = probs.sort(dim=-1, descending=True).values
    vocab = logits.shape[-1]
    last = torch.where((top_k < 1) | (top_k > vocab), vocab, top_k).long()[:, None] - 1
    least = ordered.gather(1, last)
    probs = probs.masked_fill(probs < least, 0)
    ordered = ordered.masked_fill(ordered < least, 0)
    before = (ordered.cumsum(-1) - ordered) / ordered.sum(-1, keepdim=True)
    last = (before < top_p.to(probs)[:, None]).sum(-1, keepdim=True) - 1
    return probs.masked_fill(probs < ordered.gather(1, last), 0)


def _probabilities(logits: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return torch.softmax(wide / temperature.to(wide)[:, None], dim=-1)


def fake(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    uniform: torch.Tensor,
) -> torch.Tensor:
    """[N] int64."""
    return logits.new_empty(logits.shape[:1], dtype=torch.int64)


def samples(dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    """Each filter alone and some together, away from where rounding would decide."""
    for rows, vocab in ((6, 49153), (6, 1000), (12, 33), (6, 1)):
        # Spread so wide that a few tokens have most of the probability.
        logits = normal((rows, vocab), dtype, generator, 4.0)
        temperature = 0.5 + torch.rand(rows, generator=generator)
        case = torch.arange(rows) % 6
        top_k = torch.randint(1, max(2, min(vocab, 100)), (rows,), generator=generator)
        top_k = torch.where((case == 1) | (case > 3), top_k, 0).int()
        min_p = torch.where((case == 2) | (case == 4), 0.013, 0.0)
        exact = logits.double(), temperature.double(), top_k
        kept = _kept(*exact, torch.ones(rows), min_p)
        top_p = torch.where((case == 3) | (case == 5), _between(kept), torch.ones(rows))
        kept = _kept(*exact, top_p, min_p)
        yield logits, temperature, top_k, top_p, min_p, _drawing(kept, generator)


def _between(probs: torch.Tensor) -> torch.Tensor:
    """For each row a top-p half way between two of its sums, around 0.6."""
    ordered = probs.sort(dim=-1, descending=True).values
    sums = (ordered / ordered.sum(-1, keepdim=True)).cumsum(-1)
    place = (sums < 0.6).sum(-1, keepdim=True)
    above = sums.gather(1, place)
    return (above - ordered.gather(1, place) / ordered.sum(-1, keepdim=True) / 2)[:, 0].float()


def _drawing(probs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """For each row a number half way through the interval of one of its five likeliest tokens."""
    likely = probs.topk(min(5, probs.shape[1]), dim=-1)
    choice = torch.rand(likely.values.shape, generator=generator) * (likely.values > 0)
    token = likely.indices.gather(1, choice.argmax(-1, keepdim=True))
    sums = probs.cumsum(-1)
    middle = sums.gather(1, token) - probs.gather(1, token) / 2
    return (middle / sums[:, -1:])[:, 0].float()


sample_tokens = define_op(
    OpDef(
        name="sample_tokens",
        schema="(Tensor logits, Tensor temperature, Tensor top_k, Tensor top_p, Tensor min_p,"
        " Tensor uniform) -> Tensor",
        reference=reference,
        fake=fake,
        tolerance=CHOICE,
        samples=samples,
    )
)
