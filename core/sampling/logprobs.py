"""Log-probabilities of chosen and of most likely tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from runtime.core.messages import TokenLogprobs
from runtime.core.platform.interface import MemoryRole

LEAST_LOGPROB = -9999.0
"""Stands for minus infinity, which JSON cannot say."""


def gather_logprobs(
    logits: torch.Tensor, chosen: Sequence[int], count: int, memory: MemoryRole
) -> list[TokenLogprobs]:
    """Log-probabilities of ``chosen`` and of the ``count`` most likely tokens in each row.

    logits [N, vocab] float32; ``count`` -1 is the whole vocabulary. Ranks count from 1.
    """
    vocab = logits.shape[-1]
    count = vocab if count < 0 else min(count, vocab)
    source = torch.tensor(chosen, dtype=torch.int64)
    ids = torch.empty(source.shape, dtype=torch.int64, device=logits.device)
    memory.copy_to_device(source, ids)
    logprobs = torch.log_softmax(logits, dim=-1).clamp_min(LEAST_LOGPROB)
    own = logprobs.gather(-1, ids[:, None])
    ranks = (logprobs > own).sum(-1) + 1
    top = torch.topk(logprobs, count, dim=-1)
    own_host = memory.copy_to_host(own).tolist()
    ranks_host = memory.copy_to_host(ranks).tolist()
    top_values = memory.copy_to_host(top.values).tolist()
    top_ids = memory.copy_to_host(top.indices).tolist()
    return [
        TokenLogprobs(
            token_ids=[int(token), *top_ids[row]],
            logprobs=[own_host[row][0], *top_values[row]],
            ranks=[ranks_host[row], *range(1, count + 1)],
        )
        for row, token in enumerate(chosen)
    ]
