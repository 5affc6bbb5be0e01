"""From the text of an answer to its parts: thoughts, content and calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runtime.core.entrypoints.server.context import ServerContext
from runtime.core.entrypoints.server.protocol.chat import (
    AssistantMessage,
    ChatCompletionRequest,
    ChatTool,
    NamedToolChoice,
    ToolCallFunction,
    ToolCallInfo,
)
from runtime.core.errors import RequestError
from runtime.core.reasoning.interface import ReasoningOutput, ReasoningParser
from runtime.core.reasoning.registry import REASONING_PARSERS
from runtime.core.reasoning.think_tags import OPEN, ThinkTagsParser
from runtime.core.structured_output.params import StructuredOutputs
from runtime.core.tool_parsers.choice import (
    NamedToolParser,
    RequiredToolParser,
    named_call_arguments,
    required_calls,
)
from runtime.core.tool_parsers.interface import ToolCallDelta, ToolDelta, ToolParser
from runtime.core.tool_parsers.registry import TOOL_PARSERS


@dataclass(frozen=True)
class ChatForm:
    """What a request makes of the answer's form."""

    structured_outputs: StructuredOutputs | None
    """A grammar that binds the whole output."""
    tool_parser: ToolParser | None
    template_tools: bool
    """Whether the template is told of the tools."""


def chat_form(body: ChatCompletionRequest, context: ServerContext) -> ChatForm:
    """How tools and formats bind an answer.

    Raises:
        RequestError: the choice of tools cannot be served, or contradicts the format.
    """
    form = body.form()
    choice = body.tool_choice
    if not body.tools or choice == "none":
        return ChatForm(form, None, False)
    tools = [_tool(tool) for tool in body.tools]
    if choice in (None, "auto"):
        name = context.args.tool_call_parser
        if not context.args.enable_auto_tool_choice or name is None:
            raise RequestError(
                "tool_choice 'auto' needs a server with --enable-auto-tool-choice and "
                "--tool-call-parser; 'required', 'none' and a named function work without",
                "tool_choice",
            )
        return ChatForm(form, TOOL_PARSERS.load(name)(tools), True)
    if form is not None:
        raise RequestError(
            "a tool_choice that forces a call excludes response_format and structured_outputs",
            "tool_choice",
        )
    if isinstance(choice, NamedToolChoice):
        called = choice.function.name
        return ChatForm(named_call_arguments(tools, called), NamedToolParser(called, tools), True)
    forced = required_calls(tools, parallel=body.parallel_tool_calls)
    return ChatForm(forced, RequiredToolParser(tools), True)


def _tool(tool: ChatTool) -> dict[str, Any]:
    return tool.model_dump(exclude_none=True)


def reasoning_parser(
    body: ChatCompletionRequest, context: ServerContext, prompt: str, form: ChatForm
) -> ReasoningParser | None:
    """The parser of the answer's thoughts; None where it has none.

    A grammar binds the output from its first token, so that there are no thoughts under one.
    """
    name = context.args.reasoning_parser
    if name is None or form.structured_outputs is not None:
        return None
    parser = REASONING_PARSERS.load(name)
    if issubclass(parser, ThinkTagsParser) and prompt.rstrip().endswith(OPEN):
        return parser(opened=True)
    return parser()


@dataclass
class AnswerPart:
    """What is new of an answer."""

    reasoning: str = ""
    content: str = ""
    calls: tuple[ToolCallDelta, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing."""
        return not (self.reasoning or self.content or self.calls)


class AnswerReader:
    """Reads one answer while it grows."""

    def __init__(
        self,
        reasoning: ReasoningParser | None,
        tools: ToolParser | None,
        *,
        parallel: bool,
        tell_reasoning: bool,
    ) -> None:
        self._reasoning = reasoning.stream() if reasoning else None
        self._tools = tools.stream() if tools else None
        self._parallel = parallel
        self._tell_reasoning = tell_reasoning
        self.called = False
        """Whether there was a call."""

    def push(self, text: str) -> AnswerPart:
        """Take in more text."""
        if self._reasoning is None:
            return self._content(text)
        return self._thought(self._reasoning.push(text))

    def finish(self) -> AnswerPart:
        """The text is complete."""
        part = AnswerPart()
        if self._reasoning is not None:
            part = self._thought(self._reasoning.finish())
        if self._tools is not None:
            rest = self._told(self._tools.finish())
            part.content += rest.content
            part.calls += rest.calls
        return part

    def _thought(self, output: ReasoningOutput) -> AnswerPart:
        part = self._content(output.content) if output.content else AnswerPart()
        if self._tell_reasoning:
            part.reasoning = output.reasoning
        return part

    def _content(self, text: str) -> AnswerPart:
        if self._tools is None:
            return AnswerPart(content=text)
        return self._told(self._tools.push(text))

    def _told(self, delta: ToolDelta) -> AnswerPart:
        calls = delta.calls
        if not self._parallel:
            calls = tuple(call for call in calls if call.index == 0)
        self.called = self.called or bool(calls)
        return AnswerPart(content=delta.content, calls=calls)


def finish_reason(given: str | None, reader: AnswerReader) -> Any:
    """An answer that ended with calls ends for them; one that was cut was cut."""
    return "tool_calls" if given == "stop" and reader.called else given


def delta_message(part: AnswerPart) -> AssistantMessage:
    """A part of an answer as streams tell it."""
    message = AssistantMessage()
    if part.content:
        message.content = part.content
    if part.reasoning:
        message.reasoning_content = message.reasoning = part.reasoning
    if part.calls:
        message.tool_calls = [
            ToolCallInfo(index=call.index, **_head(call.id, call.name, call.arguments))
            for call in part.calls
        ]
    return message


def whole_message(reader: AnswerReader, text: str, role: str) -> AssistantMessage:
    """A whole answer."""
    parts = [reader.push(text), reader.finish()]
    content = "".join(part.content for part in parts)
    reasoning = "".join(part.reasoning for part in parts)
    calls: dict[int, list[str]] = {}
    for part in parts:
        for delta in part.calls:
            call = calls.setdefault(delta.index, [delta.id or "", delta.name or "", ""])
            call[2] += delta.arguments
    # Clients that check answers against OpenAI's schema want a refusal, if only to see none.
    text_or_none = content if content or not calls else None
    message = AssistantMessage(role=role, content=text_or_none, refusal=None)
    if reasoning:
        message.reasoning_content = message.reasoning = reasoning
    if calls:
        message.tool_calls = [ToolCallInfo(**_head(*call)) for call in calls.values()]
    return message


def _head(call_id: str | None, name: str | None, arguments: str) -> dict[str, Any]:
    """A call; the id and the name are told once."""
    if call_id is None:
        return {"function": ToolCallFunction(arguments=arguments)}
    return {
        "id": call_id,
        "type": "function",
        "function": ToolCallFunction(name=name, arguments=arguments),
    }
