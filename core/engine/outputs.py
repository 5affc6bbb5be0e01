"""What a request gives back to the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Logprob:
    """One token's log-probability at one position."""

    logprob: float
    """Natural logarithm; -9999.0 for probability zero."""
    rank: int
    """1 is the most likely token."""
    decoded_token: str | None = None


PositionLogprobs = Mapping[int, Logprob]
"""By token id: the chosen token first, then the most likely ones."""


@dataclass
class CompletionOutput:
    """One output of a request."""

    index: int
    text: str
    token_ids: list[int]
    finish_reason: str | None = None
    """``stop``, ``length``, ``abort`` or ``error``; None while it goes on."""
    stop_reason: int | str | None = None
    """The stop token or stop string that ended it; None for end-of-sequence."""
    logprobs: list[PositionLogprobs] | None = None
    cumulative_logprob: float | None = None
    error: str | None = None
    """What went wrong, where ``finish_reason`` is ``error``: other requests are as they were."""


@dataclass
class RequestOutput:
    """A request's outputs so far, or what is new of them, as its ``output_kind`` says."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool
    num_cached_tokens: int = 0
    """Prompt tokens that came from the prefix cache."""
    num_preemptions: int = 0
    """Times that the request gave back its KV blocks and was computed again."""
    prompt_logprobs: list[PositionLogprobs | None] | None = None
    """One entry a prompt token; the first, which nothing predicts, is None."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Seconds since the Unix epoch: ``arrival_time``, ``first_token_time``, ``finished_time``."""
