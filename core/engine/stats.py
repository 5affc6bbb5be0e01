"""What is counted and timed of requests, for metrics and for the log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from runtime.core.engine.output_processor import RequestTracker
from runtime.core.engine.request import FinishReason
from runtime.core.engine.wire import EngineStats
from runtime.core.messages import EngineOutput, EngineRequest


@dataclass(frozen=True)
class FinishedRequest:
    """One request, at its end. Times are in seconds; None where it never got so far."""

    finish_reasons: tuple[str, ...]
    """Of each of its outputs."""
    num_prompt_tokens: int
    num_generation_tokens: int
    """Of all outputs together."""
    e2e_seconds: float
    queue_seconds: float | None
    prefill_seconds: float | None
    """From the first step to the first token."""
    decode_seconds: float | None
    """From the first token to the last."""
    max_tokens: int | None
    n: int


class StatLogger(Protocol):
    """Is told what the engine does. Every method must return at once."""

    def record_step(self, stats: EngineStats) -> None:
        """A step is done."""

    def record_prompt(self, num_tokens: int, time_to_first_token: float) -> None:
        """A prompt was computed; seconds since the request arrived."""

    def record_tokens(self, count: int, inter_token_seconds: Sequence[float]) -> None:
        """Tokens were generated; seconds since the one before, for all but an output's first."""

    def record_finished(self, request: FinishedRequest) -> None:
        """A request has ended, for whatever reason."""


class TokenTimes:
    """The times of one request's tokens, while they come."""

    def __init__(self, first: EngineRequest) -> None:
        self._first = first
        self._scheduled: float | None = None
        self._first_token: float | None = None
        self._last_token: float | None = None
        self._last_of: dict[str, float] = {}
        self._prompt_counted = False

    def add(self, output: EngineOutput, loggers: Sequence[StatLogger]) -> None:
        """Take in what a step gave for one output, and tell of it."""
        now = time.time()
        if self._scheduled is None and output.scheduled_time:
            self._scheduled = output.scheduled_time
        ended = output.finish_reason is not None
        if not self._prompt_counted and (output.new_token_ids or ended):
            self._prompt_counted = True
            for logger in loggers:
                logger.record_prompt(
                    len(self._first.prompt_token_ids), now - self._first.arrival_time
                )
        if not output.new_token_ids:
            return
        if self._first_token is None:
            self._first_token = now
        self._last_token = now
        before = self._last_of.get(output.request_id)
        self._last_of[output.request_id] = now
        gaps = () if before is None else (now - before,)
        for logger in loggers:
            logger.record_tokens(len(output.new_token_ids), gaps)

    def finish(self, tracker: RequestTracker) -> FinishedRequest:
        """The whole request."""
        now = time.time()
        first, params = self._first, tracker.params
        streams = tracker.streams.values()
        return FinishedRequest(
            finish_reasons=tuple(s.finish_reason or FinishReason.ABORT.value for s in streams),
            num_prompt_tokens=len(first.prompt_token_ids),
            num_generation_tokens=sum(len(stream.token_ids) for stream in streams),
            e2e_seconds=now - first.arrival_time,
            queue_seconds=_between(first.arrival_time, self._scheduled),
            prefill_seconds=_between(self._scheduled, self._first_token),
            decode_seconds=_between(self._first_token, self._last_token),
            max_tokens=params.max_tokens,
            n=len(tracker.streams),
        )


def _between(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else max(0.0, end - begin)
