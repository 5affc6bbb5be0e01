"""What passes between an engine's process and the process that serves clients."""

from __future__ import annotations

import msgspec

from runtime.core.messages import EngineOutput, EngineRequest


class AddRequests(msgspec.Struct, frozen=True, tag="add"):
    """Queue requests, all of one prompt or of one call."""

    requests: list[EngineRequest]


class AbortRequests(msgspec.Struct, frozen=True, tag="abort"):
    """End requests and free their blocks; unknown ids are passed over."""

    request_ids: list[str]


class Shutdown(msgspec.Struct, frozen=True, tag="shutdown"):
    """Let go of the model and end the process."""


Command = AddRequests | AbortRequests | Shutdown


class EngineStats(msgspec.Struct, frozen=True):
    """The engine after a step; counters are since it started."""

    num_running: int = 0
    num_waiting: int = 0
    kv_cache_usage: float = 0.0
    """Share of blocks in use, 0 to 1."""
    prefix_cache_queries: int = 0
    """Prompt tokens that were looked up."""
    prefix_cache_hits: int = 0
    """Prompt tokens that were found."""
    num_preemptions: int = 0


class EngineReady(msgspec.Struct, frozen=True, tag="ready"):
    """The model is loaded."""

    max_model_len: int
    longest_request: int
    """Tokens of prompt and output that one request may have."""
    summary: str
    """The KV cache in one line."""


class EngineStep(msgspec.Struct, frozen=True, tag="step"):
    """What a step gave."""

    outputs: list[EngineOutput]
    stats: EngineStats


class EngineFailed(msgspec.Struct, frozen=True, tag="failed"):
    """The last message of an engine that ends by itself."""

    cause: str
    """One line."""
    user_error: bool
    """Whether the user can mend it: an argument or a checkpoint that will not do."""


Report = EngineReady | EngineStep | EngineFailed
