"""A request as the scheduler sees it."""

from __future__ import annotations

from enum import Enum, StrEnum, auto

from runtime.core.kv_cache.hashing import BlockHash, extend_hashes
from runtime.core.messages import EngineRequest


class RequestStatus(Enum):
    """Where a request is in its life."""

    WAITING = auto()
    RUNNING = auto()
    PREEMPTED = auto()
    FINISHED = auto()


class FinishReason(StrEnum):
    """Why an output ended, in the words of the OpenAI API."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"
    """The engine's fault; not one of the OpenAI API's."""


class Request:
    """Tokens known and tokens computed; the scheduler closes the gap between the two."""

    def __init__(self, message: EngineRequest, block_size: int, max_model_len: int) -> None:
        self.request_id = message.request_id
        self.params = message.params
        self.pooling = message.pooling
        self.priority = message.params.priority
        self.arrival_time = message.arrival_time
        self.arrival_index = 0
        """Set by the scheduler: breaks ties, first come first served."""
        self.token_ids = list(message.prompt_token_ids)
        self.num_prompt_tokens = len(self.token_ids)
        room = max_model_len - self.num_prompt_tokens
        asked = message.params.max_tokens
        self.max_tokens = room if asked is None else min(asked, room)
        self.eos_token_ids = frozenset(message.eos_token_ids)
        self.status = RequestStatus.WAITING
        self.num_computed = 0
        """Those of steps that are under way included."""
        self.num_pending = 0
        """Tokens that steps under way will give."""
        self.num_cached_tokens: int | None = None
        """Prompt tokens taken from the prefix cache when the request first ran."""
        self.num_preemptions = 0
        self.scheduled_time = 0.0
        """When it first ran, in seconds since the Unix epoch."""
        self.prompt_logprobs_sent = 0
        self._block_size = block_size
        self._hash_extra = message.cache_salt.encode() if message.cache_salt else b""
        self.block_hashes: list[BlockHash] = []
        extend_hashes(self.block_hashes, self.token_ids, block_size, self._hash_extra)

    @property
    def num_tokens(self) -> int:
        """Tokens known: prompt and output."""
        return len(self.token_ids)

    @property
    def num_output_tokens(self) -> int:
        """Tokens of output."""
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def num_schedulable(self) -> int:
        """Tokens that a next step can compute: known or pending ones.

        None where the pending ones are the last that the request may have.
        """
        if self.num_pending and self.num_output_tokens + self.num_pending >= self.max_tokens:
            return 0
        return self.num_tokens + self.num_pending - self.num_computed

    @property
    def reads_prefix_cache(self) -> bool:
        """Whether cached blocks may stand in for computed ones.

        Log-probabilities of the prompt, and most poolings, need every position computed.
        """
        if self.pooling is not None:
            return not self.pooling.reads_all_positions
        return self.params.prompt_logprobs is None

    @property
    def finished(self) -> bool:
        """Whether it has ended, for whatever reason."""
        return self.status is RequestStatus.FINISHED

    def append(self, token_id: int) -> None:
        """Add an output token."""
        self.token_ids.append(token_id)
        if len(self.token_ids) % self._block_size == 0:
            extend_hashes(self.block_hashes, self.token_ids, self._block_size, self._hash_extra)

    def end_after(self, token_id: int) -> tuple[FinishReason, int | None] | None:
        """Whether the output ends with that last token: the reason, and the stop token if any."""
        params = self.params
        if params.structured_outputs is not None and token_id in self.eos_token_ids:
            # The grammar allows it where nothing else may follow, whatever the others say.
            return FinishReason.STOP, None
        if self.num_output_tokens >= params.min_tokens:
            if token_id in self.eos_token_ids and not params.ignore_eos:
                return FinishReason.STOP, None
            if token_id in params.stop_token_ids:
                return FinishReason.STOP, token_id
        if self.num_output_tokens >= self.max_tokens:
            return FinishReason.LENGTH, None
        return None
