"""What passes between the engine's parts. All of it can cross a process boundary."""

from __future__ import annotations

from typing import Protocol

import msgspec

from runtime.core.pooling.params import Pooling, Vectors
from runtime.core.sampling.params import SamplingParams


class TokenLogprobs(msgspec.Struct, frozen=True, array_like=True):
    """Log-probabilities at one position: the chosen token first, then the most likely ones."""

    token_ids: list[int]
    logprobs: list[float]
    """Natural logarithms; a token of probability zero has -9999.0, never an infinity."""
    ranks: list[int]
    """1 is the most likely."""


class EngineRequest(msgspec.Struct, frozen=True):
    """A validated request on its way to the engine core."""

    request_id: str
    prompt_token_ids: list[int]
    params: SamplingParams
    eos_token_ids: list[int]
    """Tokens that end the output unless ``ignore_eos``."""
    arrival_time: float
    cache_salt: str | None = None
    """Prompts share cached blocks only within one salt."""
    bad_words_token_ids: list[list[int]] = []
    """``bad_words`` as token sequences."""
    pooling: Pooling | None = None
    """Set where the prompt is pooled instead of continued; ``params.max_tokens`` is then 0."""


class EngineOutput(msgspec.Struct, frozen=True):
    """What one step gave for one request."""

    request_id: str
    new_token_ids: list[int]
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    """The stop token or stop string that ended the output; None for end-of-sequence."""
    logprobs: list[TokenLogprobs] | None = None
    prompt_logprobs: list[TokenLogprobs] | None = None
    """Of the prompt positions computed in this step, if the request asks for them."""
    num_cached_tokens: int = 0
    num_preemptions: int = 0
    error: str | None = None
    """What went wrong, where ``finish_reason`` is ``error``."""
    scheduled_time: float = 0.0
    """When the request first ran, in seconds since the Unix epoch."""
    pooled: Vectors | None = None
    """The result of a request that pools."""


class ScheduledRequest(msgspec.Struct, frozen=True):
    """A request that the runner does not know yet, or that it was told to forget."""

    request_id: str
    token_ids: list[int]
    """All tokens known: the prompt, and the output so far if it was preempted."""
    num_prompt_tokens: int
    num_computed: int
    block_ids: list[list[int]]
    """By KV cache group."""
    params: SamplingParams
    stop_token_ids: list[int]
    """Tokens that ``min_tokens`` keeps out."""
    bad_words_token_ids: list[list[int]]
    prompt_logprobs_from: int
    """First prompt position whose log-probabilities have not been sent."""
    pooling: Pooling | None = None


class ScheduledUpdate(msgspec.Struct, frozen=True):
    """A request that the runner knows: what has changed."""

    request_id: str
    num_computed: int
    new_block_ids: list[list[int]]


class SchedulerOutput(msgspec.Struct, frozen=True):
    """The work of one step."""

    new_requests: list[ScheduledRequest]
    updates: list[ScheduledUpdate]
    num_scheduled: dict[str, int]
    """Tokens to compute, by request."""
    removed: list[str]
    """Requests that the runner forgets: finished, aborted or preempted."""

    @property
    def total_tokens(self) -> int:
        """Tokens of the whole step."""
        return sum(self.num_scheduled.values())


class RunnerOutput(msgspec.Struct, frozen=True):
    """What a step computed."""

    sampled: dict[str, int]
    """The next token of each request all of whose tokens were computed."""
    logprobs: dict[str, TokenLogprobs]
    prompt_logprobs: dict[str, list[TokenLogprobs]]
    failed: dict[str, str] = {}
    """What went wrong with single requests, whose tokens here mean nothing."""
    pooled: dict[str, Vectors] = {}
    """The results of requests that pool and whose prompts are computed."""


class PendingOutput(Protocol):
    """A step that was handed to a device, which may still be at it."""

    def result(self) -> RunnerOutput:
        """What it computed; waits for it. Steps are asked for in the order of their submission."""


class ReadyOutput:
    """A step that is done."""

    def __init__(self, output: RunnerOutput) -> None:
        self._output = output

    def result(self) -> RunnerOutput:
        """What it computed."""
        return self._output
