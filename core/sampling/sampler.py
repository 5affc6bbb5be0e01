"""Choosing tokens from logits."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from runtime.core.config.runtime import RuntimeConfig
from runtime.core.messages import TokenLogprobs
from runtime.core.runner.buffers import to_device
from runtime.core.runner.input_batch import RequestState
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
        self._processors: list[LogitsProcessor] = [
            cls(config, device) for cls in (*BUILT_IN, *registered_processors())
        ]
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
        raw = logits.float()
        tokens: list[int] = self.memory.copy_to_host(self.choose(raw, batch)).tolist()
        return tokens, self._logprobs(raw, tokens, batch)

    def choose(self, logits: torch.Tensor, batch: SamplingBatch) -> torch.Tensor:
        """Token ids [N] int64 on the device; nothing is waited for."""
        logits = logits.float()
        if self._changes_logits(batch):
            logits = logits.clone()
            for processor in self._processors:
                processor.apply(logits, batch)
        return self._choose(logits, batch)

    def most_likely(self, logits: torch.Tensor) -> torch.Tensor:
        """Token ids [N] int64 where :meth:`is_plain`; of fixed shapes, so that it is captured."""
        return logits.argmax(dim=-1)

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
            )

        return any(asks(state.params) for state in batch.states)

    def _choose(self, logits: torch.Tensor, batch: SamplingBatch) -> torch.Tensor:
        greedy = logits.argmax(dim=-1)
        rows = batch.rows(lambda params: not params.greedy)
        if not rows:
            return greedy
        index = to_device(rows, torch.int64, self.device, self.memory)
        drawn = self.draw(logits.index_select(0, index), [batch.states[row] for row in rows])
        return greedy.index_copy(0, index, drawn)

    def draw(self, logits: torch.Tensor, states: Sequence[RequestState]) -> torch.Tensor:
        """Sample rows [n, vocab] by the exponential race: argmax of p / Exp(1) noise.

        The race is distributed as a multinomial draw (the Gumbel-max trick, Gumbel 1954).
        """
        params = [state.params for state in states]
        logits = logits / self._column([p.temperature for p in params])
        logits = self._filter(logits, params)
        noise = torch.empty_like(logits).exponential_(generator=self._shared)
        for row, state in enumerate(states):
            seed = state.params.seed
            if seed is not None:
                position = state.num_tokens
                self._generator.manual_seed((seed + position * _SEED_MIX) % 2**63)
                noise[row].exponential_(generator=self._generator)
        return (torch.softmax(logits, dim=-1) / noise).argmax(dim=-1)

    def _filter(self, logits: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
        """Mask what min-p, top-k and top-p leave out."""
        if any(p.min_p > 0 for p in params):
            probs = torch.softmax(logits, dim=-1)
            least = probs.amax(-1, keepdim=True) * self._column([p.min_p for p in params])
            logits = logits.masked_fill(probs < least, -torch.inf)
        vocab = logits.shape[-1]
        top_k = [p.top_k if 0 < p.top_k < vocab else vocab for p in params]
        top_p = [p.top_p for p in params]
        if all(k == vocab for k in top_k) and all(p == 1.0 for p in top_p):
            return logits
        ordered, order = logits.sort(dim=-1, descending=True)
        ranks = torch.arange(vocab, device=logits.device)[None, :]
        limits = to_device(top_k, torch.int64, self.device, self.memory)[:, None]
        ordered = ordered.masked_fill(ranks >= limits, -torch.inf)
        probs = torch.softmax(ordered, dim=-1)
        # Probability of all more likely tokens: the most likely one always stays.
        before = probs.cumsum(-1) - probs
        ordered = ordered.masked_fill(before >= self._column(top_p), -torch.inf)
        return torch.empty_like(logits).scatter_(-1, order, ordered)

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

    def _column(self, values: Sequence[float]) -> torch.Tensor:
        return to_device(values, torch.float32, self.device, self.memory)[:, None]
