"""The model runner: what is the same on every device. A platform subclasses it where it differs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from runtime.core.attention.interface import BatchMetadata, MetadataBuilder
from runtime.core.attention.layer import Attention
from runtime.core.config.runtime import RuntimeConfig
from runtime.core.forward_context import ForwardContext
from runtime.core.kv_cache.spec import (
    FullAttentionSpec,
    KVCacheLayout,
    KVCacheSpec,
    SlidingWindowSpec,
)
from runtime.core.messages import RunnerOutput, SchedulerOutput, TokenLogprobs
from runtime.core.models.interface import CausalLM
from runtime.core.runner.buffers import MirroredBuffer
from runtime.core.runner.input_batch import InputBatch, RequestState
from runtime.core.sampling.logprobs import gather_logprobs
from runtime.core.sampling.sampler import Sampler, SamplingBatch

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
        self.sampler = Sampler(config, device)

    def kv_cache_specs(self) -> dict[str, KVCacheSpec]:
        """What each attention layer keeps, by the layer's name."""
        return {name: self._spec_of(layer) for name, layer in self.attention_layers.items()}

    @torch.inference_mode()
    def initialize_cache(self, layout: KVCacheLayout, max_model_len: int) -> None:
        """Allocate the KV cache and everything whose size follows from it."""
        limits = self.config.scheduler
        tokens, seqs = limits.max_num_batched_tokens, limits.max_num_seqs
        self.layout = layout
        self.batch = InputBatch(seqs, max_model_len, layout)
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
        self._slots = [self._buffer((tokens,), torch.int64) for _ in layout.groups]
        self._tables = [
            self._buffer((seqs, table.shape[1]), torch.int32) for table in self.batch.block_tables
        ]

    @torch.inference_mode()
    def execute(self, step: SchedulerOutput) -> RunnerOutput:
        """Run one step."""
        self.batch.apply(step)
        if not step.num_scheduled:
            return RunnerOutput({}, {}, {})
        inputs = self.prepare_inputs(step.num_scheduled)
        hidden = self.run_model(inputs)
        return self.sample(inputs, hidden)

    def prepare_inputs(self, num_scheduled: Mapping[str, int]) -> StepInputs:
        """Gather a step's tokens into the persistent buffers and build attention metadata."""
        # Single tokens first, as attention backends expect.
        order = sorted(num_scheduled, key=lambda request_id: num_scheduled[request_id] > 1)
        states = [self.batch.states[request_id] for request_id in order]
        counts = np.fromiter((num_scheduled[i] for i in order), np.int32, count=len(states))
        rows = np.fromiter((s.row for s in states), dtype=np.int64, count=len(states))
        computed = np.fromiter((s.num_computed for s in states), dtype=np.int32, count=len(states))
        total = int(counts.sum())
        query_start = np.zeros(len(states) + 1, dtype=np.int32)
        np.cumsum(counts, out=query_start[1:])
        row_of_token = np.repeat(rows, counts)
        offsets = np.arange(total, dtype=np.int32) - np.repeat(query_start[:-1], counts)
        positions = np.repeat(computed, counts) + offsets
        self._input_ids.host[:total] = self.batch.token_ids[row_of_token, positions]
        self._positions.host[:total] = positions
        self._query_start.host[: len(states) + 1] = query_start
        self._seq_lens.host[: len(states)] = computed + counts
        context = self._build_context(rows, counts, row_of_token, positions)
        return StepInputs(
            states=states,
            counts=counts,
            input_ids=self._input_ids.push(total),
            positions=self._positions.push(total),
            context=context,
            query_start=query_start,
        )

    def run_model(self, inputs: StepInputs) -> torch.Tensor:
        """Hidden states [T, hidden_size] of a step. A subclass may replay a graph here."""
        return self.model.forward(inputs.input_ids, inputs.positions, inputs.context)

    def sample(self, inputs: StepInputs, hidden: torch.Tensor) -> RunnerOutput:
        """Next tokens of the requests whose known tokens are all computed now."""
        prompt_logprobs = self._prompt_logprobs(inputs, hidden)
        ends = [
            (state, int(inputs.query_start[index + 1]) - 1)
            for index, state in enumerate(inputs.states)
            if state.num_computed + int(inputs.counts[index]) == state.num_tokens
        ]
        if not ends:
            return RunnerOutput({}, {}, prompt_logprobs)
        states = [state for state, _ in ends]
        self._logit_rows.host[: len(ends)] = [row for _, row in ends]
        logits = self.model.compute_logits(hidden[self._logit_rows.push(len(ends))])
        batch = SamplingBatch(states, [self.batch.tokens_of(state) for state in states])
        tokens, logprobs = self.sampler.sample(logits, batch)
        for state, token_id in zip(states, tokens, strict=True):
            self.batch.append_token(state, token_id)
        sampled = {s.request_id: token for s, token in zip(states, tokens, strict=True)}
        return RunnerOutput(sampled, logprobs, prompt_logprobs)

    def _build_context(
        self,
        rows: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int32],
        row_of_token: npt.NDArray[np.int64],
        positions: npt.NDArray[np.int32],
    ) -> ForwardContext:
        """Attention metadata of each KV cache group, under the names of its layers."""
        num_reqs, total = len(rows), len(positions)
        query_start = self._query_start.push(num_reqs + 1)
        seq_lens = self._seq_lens.push(num_reqs)
        attention: dict[str, Any] = {}
        for index, group in enumerate(self.layout.groups):
            size = group.spec.block_size
            table = self.batch.block_tables[index]
            blocks = table[row_of_token, positions // size].astype(np.int64)
            self._slots[index].host[:total] = blocks * size + positions % size
            self._tables[index].host[:num_reqs] = table[rows]
            metadata = self._builders[index].build(
                BatchMetadata(
                    num_reqs=num_reqs,
                    num_tokens=total,
                    num_decodes=int(np.count_nonzero(counts == 1)),
                    max_query_len=int(counts.max()),
                    max_seq_len=int(self._seq_lens.host[:num_reqs].max()),
                    query_start_loc=query_start,
                    seq_lens=seq_lens,
                    block_table=self._tables[index].push(num_reqs),
                    slot_mapping=self._slots[index].push(total),
                    query_start_loc_host=self._query_start.host_tensor[: num_reqs + 1],
                    seq_lens_host=self._seq_lens.host_tensor[:num_reqs],
                )
            )
            attention.update(dict.fromkeys(group.layer_names, metadata))
        return ForwardContext(attention)

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
                entries += gather_logprobs(logits.float(), chosen, wanted, self.memory)
            result[state.request_id] = entries
            state.prompt_logprobs_from = max(state.prompt_logprobs_from, last)
        return result

    def _spec_of(self, layer: Attention) -> KVCacheSpec:
        spec = layer.spec
        shape = layer.backend.kv_cache_shape(1, spec)
        page_bytes = int(np.prod(shape)) * spec.kv_cache_dtype.itemsize
        if spec.sliding_window is not None:
            return SlidingWindowSpec(spec.block_size, page_bytes, spec.sliding_window)
        return FullAttentionSpec(spec.block_size, page_bytes)

    def _buffer(self, shape: tuple[int, ...], dtype: torch.dtype) -> MirroredBuffer:
        return MirroredBuffer(shape, dtype, self.device, self.memory)
