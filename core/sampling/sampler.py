"""Choosing tokens from logits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from runtime.core import ops
from runtime.core.config.runtime import RuntimeConfig
from runtime.core.messages import TokenLogprobs
from runtime.core.runner.buffers import to_device
from runtime.core.runner.input_batch import RequestState
from runtime.core.sampling.grammar import GrammarMask
from runtime.core.sampling.logprobs import gather_logprobs
from runtime.core.sampling.params import SamplingParams
from runtime.core.sampling.processors import BUILT_IN, LogitsProcessor, SamplingBatch
from runtime.core.sampling.registry import registered_processors

__all__ = ["Sampler", "SamplingBatch"]

_SEED_MIX = 0x9E3779B97F4A7C15
"""2**64 / golden ratio: spreads neighbouring positions over the seed space (Knuth, TAOCP 6.4)."""


class Sampler:
    """Draws the next token of each row.

    A row's token depends on that row alone: a seeded request draws from a generator that is
    seeded anew with its seed and position, so neither its neighbours nor a preemption change it.
    """

    def __init__(self, config: RuntimeConfig, device: torch.device) -> None:
        self.device = device
        self.memory = config.platform.memory
        classes: list[type[LogitsProcessor]] = [*BUILT_IN, *registered_processors(), GrammarMask]
        self._processors = [cls(config, device) for cls in classes]
        index = device.index or 0
        self._generator = config.platform.devices.generator(index)
        self._shared = config.platform.devices.generator(index)
        self._shared.manual_seed(config.model.seed)

    def sample(
        self, logits: torch.Tensor, batch: SamplingBatch
    ) -> tuple[list[int], dict[str, TokenLogprobs]]:
        """Token ids of all rows, and log-probabilities by request id where asked for.

        logits [N, vocab] of any float dtype. Log-probabilities are those of the model, before
        processors and temperature.
        """
        wants = any(state.params.logprobs is not None for state in batch.states)
        raw = logits.float() if wants else logits
        own = raw.clone() if wants and self._changes_logits(batch) else raw
        tokens: list[int] = self.memory.copy_to_host(self.choose(own, batch)).tolist()
        return tokens, self._logprobs(raw, tokens, batch)

    def choose(self, logits: torch.Tensor, batch: SamplingBatch) -> torch.Tensor:
        """Token ids [N] int64 on the device; nothing is waited for. ``logits`` may be changed."""
        if self._changes_logits(batch):
            logits = logits.float()
            for processor in self._processors:
                processor.apply(logits, batch)
        if all(state.params.greedy for state in batch.states):
            return self.most_likely(logits)
        return self.draw(logits, batch.states)

    def most_likely(self, logits: torch.Tensor) -> torch.Tensor:
        """Token ids [N] int64 where :meth:`is_plain`; of fixed shapes, so that it is captured."""
        tokens: torch.Tensor = ops.greedy_sample(logits)
        return tokens

    def is_plain(self, batch: SamplingBatch) -> bool:
        """Whether all rows' tokens are the most likely ones of the model's own logits."""
        return all(s.params.greedy for s in batch.states) and not self._changes_logits(batch)

    def needs_host(self, batch: SamplingBatch) -> bool:
        """Whether only :meth:`sample` will do, which waits for the tokens.

        So it is for log-probabilities, and where a subclass has a ``sample`` of its own.
        """
        own = type(self).sample is not Sampler.sample
        return own or any(state.params.logprobs is not None for state in batch.states)

    def gather_logprobs(
        self, logits: torch.Tensor, chosen: Sequence[int], count: int
    ) -> list[TokenLogprobs]:
        """See :func:`runtime.core.sampling.logprobs.gather_logprobs`."""
        return gather_logprobs(logits, chosen, count, self.memory)

    def _changes_logits(self, batch: SamplingBatch) -> bool:
        def asks(params: SamplingParams) -> bool:
            return bool(
                params.penalised
                or params.min_tokens
                or params.logit_bias
                or params.bad_words
                or params.allowed_token_ids is not None
                or params.logits_processors
                or params.structured_outputs is not None
            )

        return any(asks(state.params) for state in batch.states)

    def draw(self, logits: torch.Tensor, states: Sequence[RequestState]) -> torch.Tensor:
        """Sample rows [n, vocab]; those of greedy requests give their most likely token."""
        params = [state.params for state in states]
        temperature, top_p, min_p = self._columns(
            [
                [1.0 if p.greedy else p.temperature for p in params],
                [p.top_p for p in params],
                [p.min_p for p in params],
            ]
        )
        # The first token of the likeliest ones is what a greedy request is given.
        limits = [1 if p.greedy else p.top_k for p in params]
        top_k = to_device(limits, torch.int32, self.device, self.memory)
        return ops.sample_tokens(  # type: ignore[no-any-return]
            logits, temperature, top_k, top_p, min_p, self._uniform(states)
        )

    def _uniform(self, states: Sequence[RequestState]) -> torch.Tensor:
        """A number [n] in [0, 1) for each row: its request's own where that has a seed."""
        numbers = torch.empty(len(states), dtype=torch.float32, device=self.device)
        numbers.uniform_(generator=self._shared)
        for row, state in enumerate(states):
            seed = state.params.seed
            if state.params.greedy:
                numbers[row] = 0.0
            elif seed is not None:
                self._generator.manual_seed((seed + state.num_tokens * _SEED_MIX) % 2**63)
                numbers[row : row + 1].uniform_(generator=self._generator)
        return numbers

    def _logprobs(
        self, logits: torch.Tensor, tokens: list[int], batch: SamplingBatch
    ) -> dict[str, TokenLogprobs]:
        wanted: dict[int, list[int]] = {}
        for row, state in enumerate(batch.states):
            if state.params.logprobs is not None:
                wanted.setdefault(state.params.logprobs, []).append(row)
        result: dict[str, TokenLogprobs] = {}
        for count, rows in wanted.items():
            index = to_device(rows, torch.int64, self.device, self.memory)
            chosen = [tokens[row] for row in rows]
            entries = self.gather_logprobs(logits.index_select(0, index), chosen, count)
            for row, entry in zip(rows, entries, strict=True):
                result[batch.states[row].request_id] = entry
        return result

    def _columns(self, values: Sequence[Sequence[float]]) -> tuple[torch.Tensor, ...]:
        table = np.array(values, dtype=np.float32)
        return to_device(table, torch.float32, self.device, self.memory).unbind(0)
