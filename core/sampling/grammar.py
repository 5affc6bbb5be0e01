"""Grammar masks: structured output as the last of the logits processors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from runtime.core.runner.buffers import to_device
from runtime.core.runner.input_batch import RequestState
from runtime.core.sampling.processors import LogitsProcessor, SamplingBatch, bad_tokens
from runtime.core.structured_output.progress import GrammarProgress, OtherLimits, grammar_failure


class GrammarMask(LogitsProcessor):
    """``structured_outputs``: what the grammar does not allow is impossible.

    Masks are made on the host and cross to the device as bits. The other parameters that forbid
    tokens take part, so that a contradiction is found before a token is chosen: it ends its own
    request and no other.
    """

    name = "structured_outputs"

    def apply(self, logits: torch.Tensor, batch: SamplingBatch) -> None:
        """Fill what is not allowed with minus infinity."""
        vocab = logits.shape[1]
        rows: list[int] = []
        masks: list[npt.NDArray[np.int32]] = []
        for row, state in enumerate(batch.states):
            if state.grammar is None or state.failure is not None:
                continue
            mask = np.zeros(-(-vocab // 32), dtype=np.int32)
            tokens = batch.tokens[row]
            try:
                limits = _limits(state, state.grammar, bad_tokens(state, tokens))
                output = tokens[state.num_prompt_tokens :]
                going_on = state.grammar.next_tokens(output, mask, limits)
            except Exception as error:  # a backend may be a plugin's, and raise anything
                state.failure = grammar_failure(error)
                continue
            if going_on:
                rows.append(row)
                masks.append(mask)
        if rows:
            self._mask(logits, rows, np.stack(masks))

    def _mask(self, logits: torch.Tensor, rows: list[int], masks: npt.NDArray[np.int32]) -> None:
        words = to_device(masks, torch.int32, self.device, self.memory)
        places = torch.arange(32, dtype=torch.int32, device=self.device)
        bits = (words[:, :, None] >> places) & 1
        banned = bits.flatten(1)[:, : logits.shape[1]] == 0
        if len(rows) == logits.shape[0]:
            logits.masked_fill_(banned, -torch.inf)
            return
        index = self._index(rows)
        masked = logits.index_select(0, index).masked_fill_(banned, -torch.inf)
        logits.index_copy_(0, index, masked)


def _limits(state: RequestState, grammar: GrammarProgress, bad: list[int]) -> OtherLimits:
    params = state.params
    short = state.num_output_tokens < params.min_tokens
    ends = grammar.eos_token_ids if params.ignore_eos else ()
    return OtherLimits(
        allowed=params.allowed_token_ids,
        forbidden=bad,
        avoided=(*state.stop_token_ids, *ends) if short else ends,
    )
