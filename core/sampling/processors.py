"""Logits processors: what changes a request's logits before a token is chosen.

A processor sees the whole batch at once but may change only the rows of requests that ask for it,
so that no request's parameters touch another's tokens. Processors run in this order: allowed
tokens, bias, minimum length, bad words, penalties, then those that plugins registered, and last
the grammar (:mod:`runtime.core.sampling.grammar`), which nothing may overrule.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from runtime.core import ops
from runtime.core.platform.interface import MemoryRole
from runtime.core.runner.buffers import to_device

if TYPE_CHECKING:
    import numpy.typing as npt

    from runtime.core.config.runtime import RuntimeConfig
    from runtime.core.runner.input_batch import RequestState
    from runtime.core.sampling.params import SamplingParams


class SamplingBatch:
    """The rows of one step's logits: a request each, with all its tokens so far."""

    def __init__(
        self, states: Sequence[RequestState], tokens: Sequence[npt.NDArray[np.int32]]
    ) -> None:
        self.states = states
        self.tokens = tokens

    def rows(self, wanted: Callable[[SamplingParams], bool]) -> list[int]:
        """Rows of requests whose parameters answer True."""
        return [row for row, state in enumerate(self.states) if wanted(state.params)]

    def free_rows(self, wanted: Callable[[SamplingParams], bool]) -> list[int]:
        """The same without those that have a grammar, which must leave them a token.

        So their other limits are applied with it (:mod:`runtime.core.sampling.grammar`).
        """
        return [row for row in self.rows(wanted) if self.states[row].grammar is None]


class LogitsProcessor(ABC):
    """One way to change logits."""

    name: ClassVar[str]

    def __init__(self, config: RuntimeConfig, device: torch.device) -> None:
        self.device = device
        self.memory: MemoryRole = config.platform.memory

    @abstractmethod
    def apply(self, logits: torch.Tensor, batch: SamplingBatch) -> None:
        """Change rows of ``logits`` [N, vocab] float32 in place."""

    def _index(self, values: Sequence[int] | npt.NDArray[np.int32]) -> torch.Tensor:
        return to_device(values, torch.int64, self.device, self.memory)

    def _set(self, logits: torch.Tensor, rows: list[int], columns: list[int], value: float) -> None:
        if rows:
            logits[self._index(rows), self._index(columns)] = value


class AllowedTokens(LogitsProcessor):
    """``allowed_token_ids``: everything else is impossible."""

    name = "allowed_token_ids"

    def apply(self, logits: torch.Tensor, batch: SamplingBatch) -> None:
        """Fill the rest of the row with minus infinity."""
        for row in batch.free_rows(lambda params: params.allowed_token_ids is not None):
            ids = self._index(batch.states[row].params.allowed_token_ids or ())
            kept = logits[row].index_select(0, ids)
            logits[row].fill_(-torch.inf)
            logits[row].index_copy_(0, ids, kept)


class LogitBias(LogitsProcessor):
    """``logit_bias``: added to single tokens' logits."""

    name = "logit_bias"

    def apply(self, logits: torch.Tensor, batch: SamplingBatch) -> None:
        """Add all rows' biases at once."""
        rows: list[int] = []
        columns: list[int] = []
        values: list[float] = []
        for row in batch.rows(lambda params: bool(params.logit_bias)):
            bias = batch.states[row].params.logit_bias or {}
            rows += [row] * len(bias)
            columns += bias.keys()
            values += bias.values()
        if rows:
            added = to_device(values, torch.float32, self.device, self.memory)
            logits.index_put_((self._index(rows), self._index(columns)), added, accumulate=True)


class MinTokens(LogitsProcessor):
    """``min_tokens``: end-of-sequence and stop tokens are impossible until then."""

    name = "min_tokens"

    def apply(self, logits: torch.Tensor, batch: SamplingBatch) -> None:
        """Mask the stop tokens of requests that are too short."""
        rows: list[int] = []
        columns: list[int] = []
        for row in batch.free_rows(lambda params: params.min_tokens > 0):
            state = batch.states[row]
            if state.num_output_tokens < state.params.min_tokens:
                rows += [row] * len(state.stop_token_ids)
                columns += state.stop_token_ids
        self._set(logits, rows, columns, -torch.inf)


class BadWords(LogitsProcessor):
    """``bad_words``: the last token of a word is impossible after its others."""

    name = "bad_words"

    def apply(self, logits: torch.Tensor, batch: SamplingBatch) -> None:
        """Mask tokens that would complete a word."""
        rows: list[int] = []
        columns: list[int] = []
        for row in batch.free_rows(lambda params: bool(params.bad_words)):
            state, tokens = batch.states[row], batch.tokens[row]
            bad = bad_tokens(state, tokens)
            rows += [row] * len(bad)
            columns += bad
        self._set(logits, rows, columns, -torch.inf)


def bad_tokens(state: RequestState, tokens: npt.NDArray[np.int32]) -> list[int]:
    """Tokens that would complete one of a request's bad words; tokens [n] are all it has."""
    output = tokens[state.num_prompt_tokens :]
    heads = ((word[:-1], word[-1]) for word in state.bad_words_token_ids)
    return [last for head, last in heads if not head or output[-len(head) :].tolist() == head]


class Penalties(LogitsProcessor):
    """Repetition penalty over prompt and output, presence and frequency penalties over the output.

    See :mod:`runtime.core.ops.apply_penalties`.
    """

    name = "penalties"

    def apply(self, logits: torch.Tensor, batch: SamplingBatch) -> None:
        """Penalise each row's own tokens; rows that ask for nothing have none."""
        rows = batch.rows(lambda params: params.penalised)
        if not rows:
            return
        chosen = set(rows)
        count = len(batch.states)
        lengths = [len(tokens) if i in chosen else 0 for i, tokens in enumerate(batch.tokens)]
        bounds = np.zeros((2, count + 1), dtype=np.int32)
        np.cumsum(lengths, out=bounds[0, 1:])
        bounds[1, :-1] = bounds[0, :-1] + [state.num_prompt_tokens for state in batch.states]
        factors = np.array([[1.0], [0.0], [0.0]], dtype=np.float32).repeat(count, 1)
        for row in rows:
            params = batch.states[row].params
            factors[:, row] = (
                params.repetition_penalty,
                params.presence_penalty,
                params.frequency_penalty,
            )
        tokens = np.concatenate([batch.tokens[row] for row in rows])
        starts, output_starts = to_device(bounds, torch.int32, self.device, self.memory).unbind(0)
        ops.apply_penalties(
            logits,
            to_device(tokens, torch.int32, self.device, self.memory),
            starts,
            output_starts[:count],
            *to_device(factors, torch.float32, self.device, self.memory).unbind(0),
        )


BUILT_IN: tuple[type[LogitsProcessor], ...] = (
    AllowedTokens,
    LogitBias,
    MinTokens,
    BadWords,
    Penalties,
)
