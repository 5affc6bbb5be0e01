"""``/v1/chat/completions``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from runtime.core.entrypoints.server.protocol.base import (
    RequestModel,
    ResponseModel,
    UsageInfo,
)
from runtime.core.entrypoints.server.protocol.sampling import SamplingFields
from runtime.core.errors import RequestError


class ContentPart(RequestModel):
    """A part of a message. Models of text take parts of type ``text``."""

    model_config = ConfigDict(strict=True, extra="allow")

    type: str
    text: str | None = None


class FunctionCall(RequestModel):
    """What an assistant called."""

    name: str
    arguments: str | dict[str, Any] | None = Field(
        default=None, description="A JSON object, as text"
    )


class MessageToolCall(RequestModel):
    """A call in the history."""

    id: str | None = None
    type: Literal["function"] = "function"
    function: FunctionCall


class ChatMessage(RequestModel):
    """One turn. Fields that are not known here go to the chat template as they are."""

    model_config = ConfigDict(strict=True, extra="allow")

    role: Annotated[str, Field(min_length=1, max_length=64)]
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[MessageToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class FunctionDefinition(RequestModel):
    """A function that the model may call."""

    name: Annotated[str, Field(min_length=1, max_length=256)]
    description: str | None = None
    parameters: dict[str, Any] | None = Field(default=None, description="A JSON schema")
    strict: bool | None = None


class ChatTool(RequestModel):
    """A tool."""

    type: Literal["function"] = "function"
    function: FunctionDefinition


class NamedFunction(RequestModel):
    """A function's name."""

    name: str


class NamedToolChoice(RequestModel):
    """The one function that must be called."""

    type: Literal["function"] = "function"
    function: NamedFunction


class ChatFields(RequestModel):
    """What makes a conversation a prompt."""

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    add_generation_prompt: bool | None = Field(
        default=None, description="Begin an answer; the default, unless the last message goes on"
    )
    continue_final_message: bool = Field(
        default=False, description="Go on with the last message instead of answering it"
    )
    add_special_tokens: bool = Field(
        default=False, description="Let the tokenizer add special tokens to the template's"
    )
    documents: list[dict[str, Any]] | None = None
    chat_template: str | None = Field(
        default=None, description="Taken where the server runs with --trust-request-chat-template"
    )
    chat_template_kwargs: dict[str, Any] | None = Field(
        default=None, description="Further variables of the chat template"
    )
    tools: list[ChatTool] | None = None


class ChatCompletionRequest(ChatFields, SamplingFields):
    """A request for the next message of a conversation."""

    max_completion_tokens: int | None = Field(
        default=None, ge=0, lt=2**31, description="Another name of max_tokens"
    )
    logprobs: bool = False
    top_logprobs: int | None = Field(default=None, ge=0, lt=2**31)
    echo: bool = Field(
        default=False, description="Begin the answer with the last message, where it goes on"
    )
    tool_choice: Literal["none", "auto", "required"] | NamedToolChoice | None = None
    parallel_tool_calls: bool = True
    include_reasoning: bool = True
    reasoning_effort: str | None = None

    def check(self) -> None:
        """Refuse what fields say together.

        Raises:
            RequestError: names one of them.
        """
        if self.top_logprobs is not None and not self.logprobs:
            raise RequestError("top_logprobs needs logprobs=true", "top_logprobs")
        both = self.max_tokens is not None and self.max_completion_tokens is not None
        if both and self.max_tokens != self.max_completion_tokens:
            raise RequestError(
                "max_tokens and max_completion_tokens contradict each other",
                "max_completion_tokens",
            )
        if self.tool_choice not in (None, "none") and not self.tools:
            raise RequestError("tool_choice needs tools", "tool_choice")


class ToolCallFunction(ResponseModel):
    """What is called."""

    name: str | None = None
    arguments: str | None = None
    """A JSON object as text, or a part of it."""


class ToolCallInfo(ResponseModel):
    """A call, or what is new of it."""

    index: int | None = None
    """In streams: which call."""
    id: str | None = None
    type: Literal["function"] | None = None
    function: ToolCallFunction


class AssistantMessage(ResponseModel):
    """An answer, or what is new of it."""

    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    """The same as ``reasoning_content``: clients read either."""
    refusal: None = None
    tool_calls: list[ToolCallInfo] | None = None


class TokenLogprob(ResponseModel):
    """A token's log-probability."""

    token: str
    logprob: float
    bytes: list[int]
    """The token's text in UTF-8."""


class ChosenLogprob(TokenLogprob):
    """The chosen token's, with those of the most likely ones."""

    top_logprobs: list[TokenLogprob]


class ChatLogprobs(ResponseModel):
    """One entry a token."""

    content: list[ChosenLogprob]


class ChatChoice(ResponseModel):
    """One answer: ``message`` when whole, ``delta`` in a stream."""

    index: int
    message: AssistantMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: Literal["stop", "length", "tool_calls", "abort", "error"] | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None


class ChatChunkChoice(ResponseModel):
    """What is new of one answer."""

    index: int
    delta: AssistantMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: Literal["stop", "length", "tool_calls", "abort", "error"] | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None


class ChatCompletionResponse(ResponseModel):
    """All answers."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: UsageInfo
    prompt_token_ids: list[int] | None = None
    prompt_logprobs: list[dict[str, dict[str, Any]] | None] | None = None


class ChatCompletionChunk(ResponseModel):
    """What is new."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: UsageInfo | None = None
    prompt_token_ids: list[int] | None = None
