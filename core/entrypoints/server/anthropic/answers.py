"""``/v1/messages`` and ``/v1/messages/count_tokens``: what clients receive."""

from __future__ import annotations

from typing import Any, Literal

from runtime.core.entrypoints.server.protocol.base import ResponseModel

StopReason = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"
]


class Answer(ResponseModel):
    """Something of this API: what there is nothing to say of is null, and never left out."""

    def encode(self) -> bytes:
        """JSON with every field."""
        return self.model_dump_json().encode()


class TextOutput(Answer):
    """Text."""

    type: Literal["text"] = "text"
    text: str
    citations: None = None


class ThinkingOutput(Answer):
    """What the model thought."""

    type: Literal["thinking"] = "thinking"
    thinking: str
    signature: str = ""
    """Empty: thoughts are not signed."""


class Caller(Answer):
    """Who calls: the model itself."""

    type: Literal["direct"] = "direct"


class ToolUseOutput(Answer):
    """A call. Of one that was cut, ``input`` is what was complete."""

    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: dict[str, Any]
    caller: Caller = Caller()


class DeltaUsage(Answer):
    """Tokens that a request took so far. The prompt's are the first three together."""

    input_tokens: int
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int
    """Taken from the prefix cache."""
    output_tokens: int
    output_tokens_details: None = None
    server_tool_use: None = None


class MessageUsage(DeltaUsage):
    """Tokens that a request took."""

    cache_creation: None = None
    inference_geo: None = None
    service_tier: None = None


class MessageDelta(Answer):
    """How a message ended."""

    stop_reason: StopReason | None
    stop_sequence: str | None
    stop_details: None = None
    container: None = None


class Message(Answer):
    """The assistant's next message."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[TextOutput | ThinkingOutput | ToolUseOutput]
    stop_reason: StopReason | None
    stop_sequence: str | None
    """The one of the request's stop sequences that ended the message."""
    stop_details: None = None
    container: None = None
    usage: MessageUsage


class TokenCount(ResponseModel):
    """How long a prompt is."""

    input_tokens: int


class AnthropicErrorInfo(ResponseModel):
    """What went wrong."""

    type: str
    message: str


class AnthropicErrorResponse(ResponseModel):
    """The answer to a request that is refused or failed."""

    type: Literal["error"]
    error: AnthropicErrorInfo
