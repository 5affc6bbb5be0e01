"""From Anthropic's form of a conversation to the one that chat templates take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from runtime.core.entrypoints.server.anthropic.protocol import (
    CountTokensRequest,
    InputMessage,
    MessagesRequest,
    TextBlock,
    ThinkingBlock,
    ToolChoice,
    ToolResultBlock,
    ToolUseBlock,
)
from runtime.core.entrypoints.server.protocol.chat import ChatCompletionRequest
from runtime.core.errors import RequestError


def chat_request(body: CountTokensRequest) -> ChatCompletionRequest:
    """The same request as ``/v1/chat/completions`` would have it.

    Raises:
        RequestError: a block stands where none of its kind may, or a field contradicts another.
    """
    fields: dict[str, Any] = {"model": body.model, **_messages(body), **_tools(body)}
    if body.thinking is not None:
        thinks = body.thinking.type != "disabled"
        fields["chat_template_kwargs"] = {"enable_thinking": thinks}
        fields["include_reasoning"] = body.thinking.display != "omitted"
    if body.output_config is not None:
        fields["reasoning_effort"] = body.output_config.effort
        if body.output_config.format is not None:
            schema = body.output_config.format.json_schema
            form = {"type": "json_schema", "json_schema": {"schema": schema}}
            fields["response_format"] = form
    if isinstance(body, MessagesRequest):
        fields["stop"] = body.stop_sequences
        for name in ("max_tokens", "temperature", "top_p", "top_k", "stream"):
            fields[name] = getattr(body, name)
    return ChatCompletionRequest.model_validate(fields)


def _tools(body: CountTokensRequest) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if body.tools:
        fields["tools"] = [
            {
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.input_schema,
                }
            }
            for tool in body.tools
        ]
    if body.tool_choice is not None:
        fields["tool_choice"] = _tool_choice(body.tool_choice)
        fields["parallel_tool_calls"] = not body.tool_choice.disable_parallel_tool_use
    return fields


def _tool_choice(choice: ToolChoice) -> Any:
    if choice.type == "tool":
        if not choice.name:
            raise RequestError("tool_choice of type tool needs a name", "tool_choice.name")
        return {"function": {"name": choice.name}}
    return "required" if choice.type == "any" else choice.type


@dataclass
class _Turn:
    """Consecutive messages of one role, which are one message."""

    role: str
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)

    def message(self) -> dict[str, Any]:
        """As chat completions have it; None is absent."""
        content: Any = self.texts[0] if self.texts else "" if not self.calls else None
        if len(self.texts) > 1:
            content = [{"type": "text", "text": text} for text in self.texts]
        return {
            "role": self.role,
            "content": content,
            "tool_calls": self.calls or None,
            "reasoning_content": "\n".join(self.thoughts) or None,
            **self.more,
        }


def _messages(body: CountTokensRequest) -> dict[str, Any]:
    """The conversation, and whether it ends within the assistant's own words."""
    turns: list[_Turn] = []
    if body.system:
        turns.append(_Turn("system", [block.text for block in body.system]))
    names: dict[str, str] = {}
    for index, message in enumerate(body.messages):
        _add(turns, message, f"messages[{index}]", names)
    last = turns[-1]
    if last.calls:
        raise RequestError("messages end with a tool_use that has no tool_result", "messages")
    return {
        "messages": [turn.message() for turn in turns],
        "continue_final_message": last.role == "assistant",
    }


def _add(turns: list[_Turn], message: InputMessage, at: str, names: dict[str, str]) -> None:
    """Add a message; ``names`` has the tools of calls by their ids."""
    _check_roles(message, at)
    results = [block for block in message.content if isinstance(block, ToolResultBlock)]
    # Templates want results right behind their calls, before anything else that the user says.
    for result in results:
        turns.append(_result(result, names))
    if results and len(results) == len(message.content):
        return
    turn = _turn_of(turns, message.role)
    for block in message.content:
        match block:
            case TextBlock():
                turn.texts.append(block.text)
            case ThinkingBlock():
                turn.thoughts.append(block.thinking)
            case ToolUseBlock():
                names[block.id] = block.name
                function = {"name": block.name, "arguments": block.input}
                turn.calls.append({"id": block.id, "function": function})


def _turn_of(turns: list[_Turn], role: str) -> _Turn:
    if not turns or turns[-1].role != role:
        turns.append(_Turn(role))
    return turns[-1]


def _result(block: ToolResultBlock, names: dict[str, str]) -> _Turn:
    more: dict[str, Any] = {"tool_call_id": block.tool_use_id}
    if block.tool_use_id in names:
        more["name"] = names[block.tool_use_id]
    if block.is_error:
        more["is_error"] = True
    return _Turn("tool", [text.text for text in block.content], more=more)


def _check_roles(message: InputMessage, at: str) -> None:
    allowed: Sequence[str] = {
        "user": ("text", "tool_result"),
        "assistant": ("text", "thinking", "redacted_thinking", "tool_use"),
        "system": ("text",),
    }[message.role]
    for index, block in enumerate(message.content):
        if block.type not in allowed:
            raise RequestError(
                f"{at}.content[{index}]: a {message.role} message has no {block.type} blocks",
                f"{at}.content[{index}]",
            )
