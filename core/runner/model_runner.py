"""The model runner: what is the same on every device. A platform subclasses it where it differs."""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from runtime.core.attention.encoder import EncoderAttention, EncoderBatch
from runtime.core.attention.interface import BatchMetadata, MetadataBuilder
from runtime.core.attention.layer import Attention
from runtime.core.config.runtime import RuntimeConfig
from runtime.core.forward_context import ForwardContext
from runtime.core.kv_cache.spec import KVCacheLayout, KVCacheSpec
from runtime.core.messages import (
    PendingOutput,
    ReadyOutput,
    RunnerOutput,
    SchedulerOutput,
    TokenLogprobs,
)
from runtime.core.models.interface import CausalLM
from runtime.core.platform.interface import HostCopy
from runtime.core.pooling.pooler import pool
from runtime.core.runner.buffers import MirroredBuffer, put
from runtime.core.runner.input_batch import InputBatch, RequestState
from runtime.core.runner.under_way import LastTokens, ReadyCopy, StepsUnderWay
from runtime.core.sampling.sampler import Sampler, SamplingBatch
from runtime.core.structured_output.progress import grammar_failure
from runtime.core.structured_output.store import GrammarStore

logger = logging.getLogger(__name__)

PROMPT_LOGPROBS_ROWS = 256
"""Prompt positions whose logits exist at once: a row is a whole vocabulary in float32."""


@dataclass
class StepInputs:
    """One step's tensors on the device, and the host arrays they came from."""

    states: list[RequestState]
    """The scheduled requests, in batch order."""
    counts: npt.NDArray[np.int32]
    """Tokens to compute of each."""
    input_ids: torch.Tensor
    positions: torch.Tensor
    context: ForwardContext
    query_start: npt.NDArray[np.int32]
    padding: int
    """Requests of one token behind those, which nobody reads."""
    single: bool
    """Whether each request computes one token."""


def failures_of(states: list[RequestState]) -> dict[str, str]:
    """What went wrong with requests, by their ids."""
    return {state.request_id: state.failure for state in states if state.failure is not None}


class ModelRunner:
    """Owns the model, its KV cache tensors and the persistent input buffers of one device."""

    def __init__(self, config: RuntimeConfig, model: CausalLM, device: torch.device) -> None:
        self.config = config
        self.model = model
        self.device = device
        self.index = device.index or 0
        self.memory = config.platform.memory
        self.attention_layers: dict[str, Attention] = {
            module.layer_name: module
            for module in cast(torch.nn.Module, model).modules()
            if isinstance(module, Attention)
        }
        self.encoder_layers = [
            module.layer_name
            for module in cast(torch.nn.Module, model).modules()
            if isinstance(module, EncoderAttention)
        ]
        sampler_class = pkgutil.resolve_name(config.platform.sampler_class)
        self.sampler: Sampler = sampler_class(config, device)
        self.last_tokens: LastTokens | None = None
        """Of steps under way; None where each step is waited for."""
        self.grammars: GrammarStore | None = None
        """Of structured outputs; the worker sets it."""

    def kv_cache_specs(self) -> dict[str, KVCacheSpec]:
        """What each attention layer keeps, by the layer's name."""
        return {
            name: layer.backend.kv_cache_spec(layer.spec)
            for name, layer in self.attention_layers.items()
        }

    @torch.inference_mode()
    def initialize_cache(self, layout: KVCacheLayout, max_model_len: int) -> None:
        """Allocate the KV cache and everything whose size follows from it."""
        limits = self.config.scheduler
        tokens, seqs = limits.max_num_batched_tokens, limits.max_num_seqs
        self.layout = layout
        self.batch = InputBatch(seqs, max_model_len, layout)
        self.steps = StepsUnderWay(self.batch)
        self._buffers: list[MirroredBuffer] = []
        self._builders: list[MetadataBuilder] = []
        for group, count in zip(layout.groups, layout.num_blocks, strict=True):
            layers = [self.attention_layers[name] for name in group.layer_names]
            for layer in layers:
                shape = layer.backend.kv_cache_shape(count, layer.spec)
                # Zeros, not uninitialised: a masked position may be read, and 0 x NaN is NaN.
                layer.kv_cache = self.memory.zeros(shape, layer.spec.kv_cache_dtype, self.index)
            builder = layers[0].backend.builder_class(self.config, layers[0].spec, self.device)
            self._builders.append(builder)
        self._input_ids = self._buffer((tokens,), torch.int32)
        self._positions = self._buffer((tokens,), torch.int64)
        self._query_start = self._buffer((seqs + 1,), torch.int32)
        self._seq_lens = self._buffer((seqs,), torch.int32)
        self._logit_rows = self._buffer((seqs,), torch.int64)
        if self.config.scheduler.async_scheduling:
            self.last_tokens = LastTokens(seqs, self._input_ids, self._buffer)
        self._numbers = np.arange(max(tokens, seqs) + 1, dtype=np.int32)
        self._slots = [self._buffer((tokens,), torch.int64) for _ in layout.groups]
        self._tables = [
            self._buffer((seqs, table.shape[1]), torch.int32) for table in self.batch.block_tables
        ]

    @torch.inference_mode()
    def submit(self, step: SchedulerOutput) -> PendingOutput:
        """Hand one step to the device.

        Waits for the steps under way only where a request's next token depends on theirs.
        """
        self.batch.apply(step)
        for request in step.new_requests:
            if request.params.structured_outputs is not None:
                self._begin_grammar(self.batch.states[request.request_id])
        if not step.num_scheduled:
            return ReadyOutput(RunnerOutput({}, {}, {}))
        scheduled = [self.batch.states[request_id] for request_id in step.num_scheduled]
        if any(state.num_pending and state.params.reads_output for state in scheduled):
            self.steps.settle()
        inputs = self.prepare_inputs(step.num_scheduled)
        hidden = self.run_model(inputs)
        if self.config.model.pooling is not None:
            return ReadyOutput(pool(inputs, hidden, self.memory))
        return self.sample(inputs, hidden)

    def prepare_inputs(self, num_scheduled: Mapping[str, int]) -> StepInputs:
        """Gather a step's tokens into the persistent buffers and build attention metadata."""
        # Single tokens first, as attention backends expect.
        order = sorted(num_scheduled, key=lambda request_id: num_scheduled[request_id] > 1)
        states = [self.batch.states[request_id] for request_id in order]
        counts = np.fromiter((num_scheduled[i] for i in order), np.int32, count=len(states))
        return self.assemble(states, counts, self.padding_of(counts), self.spare_of(counts))

    def padding_of(self, counts: npt.NDArray[np.int32]) -> int:
        """How many requests of one token, that nobody reads, are added. Default: none."""
        return 0

    def spare_of(self, counts: npt.NDArray[np.int32]) -> int:
        """How many tokens of no request are added. Default: none."""
        return 0

    def assemble(
        self,
        states: list[RequestState],
        counts: npt.NDArray[np.int32],
        padding: int,
        spare: int = 0,
    ) -> StepInputs:
        """Fill the buffers for requests in batch order, and ``padding`` requests behind them.

        A padding request has one token, whose key and value go to the reserved block 0, as do
        those of ``spare`` tokens behind all requests.
        """
        if self.last_tokens is not None:
            for buffer in self._buffers:
                buffer.turn()
        reqs, total = len(states), int(counts.sum())
        rows = np.fromiter((s.row for s in states), dtype=np.int64, count=reqs)
        computed = np.fromiter((s.num_computed for s in states), dtype=np.int32, count=reqs)
        padded = np.concatenate((counts, np.ones(padding, dtype=np.int32))) if padding else counts
        query_start = cast("npt.NDArray[np.int32]", self._query_start.host[: reqs + padding + 1])
        if total == reqs:
            query_start[:] = self._numbers[: reqs + padding + 1]
            row_of_token, positions = rows, computed
        else:
            np.cumsum(padded, out=query_start[1:])
            row_of_token = np.repeat(rows, counts)
            offsets = self._numbers[:total] - np.repeat(query_start[:reqs], counts)
            positions = np.repeat(computed, counts) + offsets
        behind = padding + spare
        put(self._input_ids, self.batch.token_ids[row_of_token, positions], behind)
        put(self._positions, positions, behind)
        put(self._seq_lens, computed + counts, padding, fill=1)
        for index, table in enumerate(self.batch.block_tables):
            size = self.layout.groups[index].spec.block_size
            blocks = table[row_of_token, positions // size].astype(np.int64)
            put(self._slots[index], blocks * size + positions % size, behind)
            put(self._tables[index], table[rows], padding)
        input_ids = self._input_ids.push(total + behind)
        if self.last_tokens is not None:
            known = (s.num_tokens - s.num_pending for s in states)
            ends = np.fromiter(known, dtype=np.int32, count=reqs)
            pending = positions >= (ends if total == reqs else np.repeat(ends, counts))
            input_ids = self.last_tokens.fill_in(row_of_token, pending, behind)
        return StepInputs(
            states=states,
            counts=counts,
            input_ids=input_ids,
            positions=self._positions.push(total + behind),
            context=self._build_context(padded, total + behind),
            query_start=query_start,
            padding=padding,
            single=total == reqs,
        )

    def run_model(self, inputs: StepInputs) -> torch.Tensor:
        """Hidden states [T, hidden_size] of a step. A subclass may replay a graph here."""
        return self.model.forward(inputs.input_ids, inputs.positions, inputs.context)

    def forward_extras(self, num_reqs: int, num_tokens: int) -> dict[str, Any]:
        """What layers and ops of the platform find in ``ForwardContext.extras``.

        Default: nothing. A subclass puts its own under its platform's name.
        """
        return {}

    def encoder_context(
        self, query_start_loc: torch.Tensor, lengths: list[int]
    ) -> dict[str, EncoderBatch]:
        """What encoder layers find in the context: the step's texts, under the layers' names."""
        return dict.fromkeys(self.encoder_layers, EncoderBatch(query_start_loc, lengths))

    def logits_of(self, inputs: StepInputs, hidden: torch.Tensor, rows: list[int]) -> torch.Tensor:
        """Logits [n, vocab_size] of tokens of a step, in ascending order."""
        return self.model.compute_logits(self._rows_of(hidden, rows))

    def most_likely_of(
        self, inputs: StepInputs, hidden: torch.Tensor, rows: list[int]
    ) -> torch.Tensor:
        """The tokens [n] int64 of largest logits, of tokens of a step in ascending order."""
        return self.sampler.most_likely(self.logits_of(inputs, hidden, rows))

    def sample(self, inputs: StepInputs, hidden: torch.Tensor) -> PendingOutput:
        """Next tokens of the requests whose known tokens are all computed now."""
        prompt_logprobs = self._prompt_logprobs(inputs, hidden)
        ends = [
            (state, int(inputs.query_start[index + 1]) - 1)
            for index, state in enumerate(inputs.states)
            if state.num_computed + int(inputs.counts[index]) == state.num_tokens
        ]
        if not ends:
            return ReadyOutput(RunnerOutput({}, {}, prompt_logprobs))
        states = [state for state, _ in ends]
        rows = [row for _, row in ends]
        batch = SamplingBatch(states, [self.batch.tokens_of(state) for state in states])
        if self.sampler.needs_host(batch):
            tokens, logprobs = self.sampler.sample(self.logits_of(inputs, hidden, rows), batch)
            self.steps.settle()
            return self._sampled(states, tokens, logprobs, prompt_logprobs)
        if self.sampler.is_plain(batch):
            chosen = self.most_likely_of(inputs, hidden, rows)
        else:
            chosen = self.sampler.choose(self.logits_of(inputs, hidden, rows), batch)
        if self.last_tokens is None:
            tokens = self.memory.copy_to_host(chosen).tolist()
            return self._sampled(states, tokens, {}, prompt_logprobs)
        self.last_tokens.put([state.row for state in states], chosen)
        for state in states:
            self.batch.append_pending(state)
        return self.steps.begin(
            states, self._start_copy(chosen), prompt_logprobs, failures_of(states)
        )

    def _begin_grammar(self, state: RequestState) -> None:
        """Give a request its matcher; where that fails, it fails alone."""
        assert self.grammars is not None
        assert state.params.structured_outputs is not None
        constraint = state.params.structured_outputs.constraint
        try:
            state.grammar = self.grammars.begin(constraint)
        except Exception as error:  # a backend may be a plugin's, and raise anything
            state.failure = grammar_failure(error)

    def _sampled(
        self,
        states: list[RequestState],
        tokens: list[int],
        logprobs: dict[str, TokenLogprobs],
        prompt_logprobs: dict[str, list[TokenLogprobs]],
    ) -> PendingOutput:
        """The output of a step whose tokens the host knows."""
        for state, token_id in zip(states, tokens, strict=True):
            self.batch.append_token(state, token_id)
        sampled = {s.request_id: token for s, token in zip(states, tokens, strict=True)}
        return ReadyOutput(RunnerOutput(sampled, logprobs, prompt_logprobs, failures_of(states)))

    def _rows_of(self, hidden: torch.Tensor, rows: list[int]) -> torch.Tensor:
        """Those rows, which are in ascending order: a view where they are the first ones."""
        if rows[-1] == len(rows) - 1:
            return hidden[: len(rows)]
        self._logit_rows.host[: len(rows)] = rows
        return hidden[self._logit_rows.push(len(rows))]

    def _build_context(self, counts: npt.NDArray[np.int32], total: int) -> ForwardContext:
        """Attention metadata of each KV cache group, under the names of its layers.

        ``total`` counts tokens, those of no request too.
        """
        reqs = len(counts)
        single = total == reqs
        query_start = self._query_start.push(reqs + 1)
        seq_lens = self._seq_lens.push(reqs)
        attention: dict[str, Any] = {}
        if self.encoder_layers:
            attention.update(self.encoder_context(query_start, counts.tolist()))
        for index, group in enumerate(self.layout.groups):
            metadata = self._builders[index].build(
                BatchMetadata(
                    num_reqs=reqs,
                    num_tokens=total,
                    num_decodes=reqs if single else int(np.count_nonzero(counts == 1)),
                    max_query_len=1 if single else int(counts.max()),
                    max_seq_len=int(self._seq_lens.host[:reqs].max()),
                    query_start_loc=query_start,
                    seq_lens=seq_lens,
                    block_table=self._tables[index].push(reqs),
                    slot_mapping=self._slots[index].push(total),
                    query_start_loc_host=self._query_start.host_tensor[: reqs + 1],
                    seq_lens_host=self._seq_lens.host_tensor[:reqs],
                )
            )
            attention.update(dict.fromkeys(group.layer_names, metadata))
        return ForwardContext(attention, self.forward_extras(reqs, total))

    def _prompt_logprobs(
        self, inputs: StepInputs, hidden: torch.Tensor
    ) -> dict[str, list[TokenLogprobs]]:
        """Log-probabilities of the prompt tokens that this step's positions predict."""
        result: dict[str, list[TokenLogprobs]] = {}
        for index, state in enumerate(inputs.states):
            wanted = state.params.prompt_logprobs
            if wanted is None:
                continue
            first = max(state.num_computed, state.prompt_logprobs_from)
            last = min(state.num_computed + int(inputs.counts[index]), state.num_prompt_tokens - 1)
            entries: list[TokenLogprobs] = []
            targets = self.batch.tokens_of(state)
            for start in range(first, last, PROMPT_LOGPROBS_ROWS):
                stop = min(last, start + PROMPT_LOGPROBS_ROWS)
                offset = int(inputs.query_start[index]) - state.num_computed
                logits = self.model.compute_logits(hidden[offset + start : offset + stop])
                chosen = targets[start + 1 : stop + 1].tolist()
                entries += self.sampler.gather_logprobs(logits.float(), chosen, wanted)
            result[state.request_id] = entries
            state.prompt_logprobs_from = max(state.prompt_logprobs_from, last)
        return result

    def _buffer(self, shape: tuple[int, ...], dtype: torch.dtype) -> MirroredBuffer:
        turns = 2 if self.config.scheduler.async_scheduling else 1
        buffer = MirroredBuffer(shape, dtype, self.device, self.memory, turns)
        self._buffers.append(buffer)
        return buffer

    def _start_copy(self, tokens: torch.Tensor) -> HostCopy:
        queue = self.config.platform.queue
        if queue is None:
            return ReadyCopy(self.memory.copy_to_host(tokens))
        return queue.start_copy_to_host(tokens)
