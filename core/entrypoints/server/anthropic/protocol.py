"""``/v1/messages`` and ``/v1/messages/count_tokens``: what clients send."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from runtime.core.entrypoints.server.protocol.base import RequestModel
from runtime.core.errors import RequestError


class TextBlock(RequestModel):
    """Text."""

    type: Literal["text"]
    text: str


class ThinkingBlock(RequestModel):
    """What an assistant thought in an earlier turn."""

    type: Literal["thinking"]
    thinking: str
    signature: str | None = Field(default=None, description="Passed over")


class RedactedThinkingBlock(RequestModel):
    """Thoughts that only their author can read; passed over."""

    type: Literal["redacted_thinking"]
    data: str | None = None


class ToolUseBlock(RequestModel):
    """A call that an assistant made in an earlier turn."""

    type: Literal["tool_use"]
    id: str
    name: Annotated[str, Field(min_length=1, max_length=256)]
    input: dict[str, Any]


def _blocks(value: Any, kinds: tuple[str, ...]) -> Any:
    """A text is a list of one block. Blocks of other kinds have a clear refusal.

    Raises:
        RequestError: names the block.
    """
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    if isinstance(value, list):
        for index, block in enumerate(value):
            kind = block.get("type") if isinstance(block, dict) else None
            if isinstance(kind, str) and kind not in kinds:
                raise RequestError(
                    f"block {index} is of type {kind!r:.80}; this model takes only "
                    f"{', '.join(kinds)} here"
                )
    return value


def _text_blocks(value: Any) -> Any:
    return _blocks(value, ("text",))


def _message_blocks(value: Any) -> Any:
    return _blocks(value, ("text", "tool_use", "tool_result", "thinking", "redacted_thinking"))


Texts = Annotated[
    list[TextBlock],
    BeforeValidator(_text_blocks, json_schema_input_type=str | list[TextBlock]),
]


class ToolResultBlock(RequestModel):
    """What a call gave."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: Texts = Field(default_factory=list)
    is_error: bool = False


Block = Annotated[
    TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock,
    Field(discriminator="type"),
]


class InputMessage(RequestModel):
    """One turn. Tool results are the user's, calls and thoughts the assistant's."""

    role: Literal["user", "assistant", "system"]
    content: Annotated[
        list[Block], BeforeValidator(_message_blocks, json_schema_input_type=str | list[Block])
    ]


class Tool(RequestModel):
    """A tool that the client runs."""

    type: Literal["custom"] = "custom"
    name: Annotated[str, Field(min_length=1, max_length=256)]
    description: str | None = None
    input_schema: dict[str, Any] = Field(description="A JSON schema")


class ToolChoice(RequestModel):
    """Whether tools are called: as the model likes, at least one, a certain one, or none."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = Field(default=None, description="With type tool: which one")
    disable_parallel_tool_use: bool = Field(default=False, description="At most one call")


class Thinking(RequestModel):
    """Whether the model thinks first, told to chat templates that can be told."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = Field(default=None, description="Passed over")
    display: Literal["summarized", "omitted"] | None = Field(
        default=None, description="omitted leaves the thoughts out of the answer"
    )


class OutputFormat(RequestModel):
    """The form that the text must have."""

    type: Literal["json_schema"]
    json_schema: dict[str, Any] = Field(alias="schema")


class OutputConfig(RequestModel):
    """How to answer."""

    effort: str | None = Field(
        default=None, description="reasoning_effort, for chat templates that know it"
    )
    format: OutputFormat | None = None


class CountTokensRequest(RequestModel):
    """A conversation whose tokens are counted."""

    model: str = Field(description="A name from /v1/models")
    messages: Annotated[list[InputMessage], Field(min_length=1)]
    system: Texts = Field(default_factory=list)
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None


class MessagesRequest(CountTokensRequest):
    """A request for the next message of a conversation.

    A last message of the assistant's is gone on with.
    """

    max_tokens: int = Field(ge=0, lt=2**31)
    stop_sequences: list[str] | None = None
    temperature: float | None = Field(default=None, ge=0, description="0 is greedy")
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=-1, lt=2**31, description="0 or -1 is all")
    stream: bool = False
