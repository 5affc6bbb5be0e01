"""``/v1/messages`` and ``/v1/messages/count_tokens``: what clients receive."""

from __future__ import annotations

from typing import Any, Literal

from runtime.core.entrypoints.server.protocol.base import ResponseModel

StopReason = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"
]


class TextOutput(ResponseModel):
    """Text."""

    type: Literal["text"]
    text: str


class ThinkingOutput(ResponseModel):
    """What the model thought."""

    type: Literal["thinking"]
    thinking: str
    signature: str
    """Empty: thoughts are not signed."""


class ToolUseOutput(ResponseModel):
    """A call. Of one that was cut, ``input`` is what was complete."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


class MessageUsage(ResponseModel):
    """Tokens that a request took. The prompt's are the first three together."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    """Taken from the prefix cache."""
    output_tokens: int


class Message(ResponseModel):
    """The assistant's next message."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[TextOutput | ThinkingOutput | ToolUseOutput]
    stop_reason: StopReason | None
    stop_sequence: str | None
    """The one of the request's stop sequences that ended the message."""
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
