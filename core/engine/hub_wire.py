"""What passes between a hub and the processes that share its engine.

A process sends one of :data:`FromFrontEnd`, with the engine's command as a second frame where there
is one, and gets the engine's reports or the text that it asked for.
"""

from __future__ import annotations

import msgspec

from runtime.core.engine.stats import FinishedRequest
from runtime.core.engine.wire import EngineFailed, EngineStep


class Forward(msgspec.Struct, frozen=True, tag="forward"):
    """The second frame is a command for the engine."""

    front_end: int
    begun: list[str]
    """Ids of requests that it begins."""
    ended: list[str]
    """Ids of requests that it ends."""


class PromptDone(msgspec.Struct, frozen=True, tag="prompt"):
    """``StatLogger.record_prompt``."""

    num_tokens: int
    time_to_first_token: float


class TokensDone(msgspec.Struct, frozen=True, tag="tokens"):
    """``StatLogger.record_tokens``."""

    count: int
    inter_token_seconds: list[float]


class RequestDone(msgspec.Struct, frozen=True, tag="request"):
    """``StatLogger.record_finished``."""

    request: FinishedRequest


Event = PromptDone | TokensDone | RequestDone


class Events(msgspec.Struct, frozen=True, tag="events"):
    """What happened to requests of one process, in order."""

    events: list[Event]


class AskMetrics(msgspec.Struct, frozen=True, tag="ask"):
    """A client asked for the series of all processes."""

    front_end: int
    number: int
    """What the answer is called."""
    accept: str
    """The formats that the client takes, as HTTP says it."""


class Serving(msgspec.Struct, frozen=True, tag="serving"):
    """The process takes requests from now on."""

    front_end: int


FromFrontEnd = Forward | Events | AskMetrics | Serving


class MetricsText(msgspec.Struct, frozen=True, tag="metrics"):
    """The answer to ``AskMetrics``."""

    number: int
    text: bytes
    content_type: str


ToFrontEnd = EngineStep | EngineFailed | MetricsText
