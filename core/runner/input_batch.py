"""The requests that the runner knows, in rows of host arrays that last from step to step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from runtime.core.kv_cache.spec import KVCacheLayout
from runtime.core.messages import ScheduledRequest, ScheduledUpdate, SchedulerOutput
from runtime.core.pooling.pooler import PoolingProgress
from runtime.core.sampling.params import SamplingParams
from runtime.core.structured_output.progress import GrammarProgress


@dataclass
class RequestState:
    """What the runner keeps of one request."""

    request_id: str
    row: int
    params: SamplingParams
    num_prompt_tokens: int
    num_tokens: int
    num_computed: int
    num_blocks: list[int]
    stop_token_ids: list[int]
    bad_words_token_ids: list[list[int]]
    prompt_logprobs_from: int
    processor_state: dict[str, object] = field(default_factory=dict)
    """For logits processors, by their name."""
    num_pending: int = 0
    """Of ``num_tokens``, how many last ones the host does not know yet."""

    grammar: GrammarProgress | None = None
    """Where the output is in the constraint of ``structured_outputs``."""
    failure: str | None = None
    """What went wrong with this request; its tokens mean nothing from then on."""
    pooling: PoolingProgress | None = None
    """What is known of its embedding, where it asks for one."""

    @property
    def num_output_tokens(self) -> int:
        """Tokens of output so far."""
        return self.num_tokens - self.num_prompt_tokens


class InputBatch:
    """Rows of token ids and block tables. A freed row is used again by the next request."""

    def __init__(self, max_num_seqs: int, max_model_len: int, layout: KVCacheLayout) -> None:
        self.token_ids = np.zeros((max_num_seqs, max_model_len + 1), dtype=np.int32)
        self.block_tables: list[npt.NDArray[np.int32]] = [
            np.zeros((max_num_seqs, -(-max_model_len // group.spec.block_size)), dtype=np.int32)
            for group in layout.groups
        ]
        self.states: dict[str, RequestState] = {}
        self._free_rows = list(range(max_num_seqs - 1, -1, -1))

    def apply(self, step: SchedulerOutput) -> None:
        """Take in what the scheduler decided."""
        for request_id in step.removed:
            state = self.states.pop(request_id, None)
            if state is not None:
                self._free_rows.append(state.row)
        for request in step.new_requests:
            self._add(request)
        for update in step.updates:
            self._update(update)

    def append_token(self, state: RequestState, token_id: int) -> None:
        """Add a sampled token; there must be no pending one."""
        self.token_ids[state.row, state.num_tokens] = token_id
        state.num_tokens += 1

    def append_pending(self, state: RequestState) -> None:
        """Add a token that only the device knows so far."""
        state.num_tokens += 1
        state.num_pending += 1

    def settle(self, state: RequestState, token_id: int) -> None:
        """Say what a request's first pending token is; nothing where the request is gone."""
        if self.states.get(state.request_id) is not state:
            return
        self.token_ids[state.row, state.num_tokens - state.num_pending] = token_id
        state.num_pending -= 1

    def tokens_of(self, state: RequestState) -> npt.NDArray[np.int32]:
        """All tokens known of a request; a view."""
        return self.token_ids[state.row, : state.num_tokens]

    def _add(self, request: ScheduledRequest) -> None:
        row = self._free_rows.pop()
        count = len(request.token_ids)
        self.token_ids[row, :count] = request.token_ids
        state = RequestState(
            request_id=request.request_id,
            row=row,
            params=request.params,
            num_prompt_tokens=request.num_prompt_tokens,
            num_tokens=count,
            num_computed=request.num_computed,
            num_blocks=[0] * len(self.block_tables),
            stop_token_ids=request.stop_token_ids,
            bad_words_token_ids=request.bad_words_token_ids,
            prompt_logprobs_from=request.prompt_logprobs_from,
            pooling=None if request.pooling is None else PoolingProgress(request.pooling),
        )
        self._append_blocks(state, request.block_ids)
        self.states[request.request_id] = state

    def _update(self, update: ScheduledUpdate) -> None:
        state = self.states[update.request_id]
        state.num_computed = update.num_computed
        self._append_blocks(state, update.new_block_ids)

    def _append_blocks(self, state: RequestState, block_ids: list[list[int]]) -> None:
        for group, blocks in enumerate(block_ids):
            if blocks:
                start = state.num_blocks[group]
                self.block_tables[group][state.row, start : start + len(blocks)] = blocks
                state.num_blocks[group] = start + len(blocks)
