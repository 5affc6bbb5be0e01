"""From an answer's parts to content blocks, whole or as events of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from pydantic_core import from_json

from runtime.core.entrypoints.server.anthropic.answers import (
    Answer,
    TextOutput,
    ThinkingOutput,
    ToolUseOutput,
)
from runtime.core.entrypoints.server.chat_output import AnswerPart
from runtime.core.entrypoints.server.event_stream import event
from runtime.core.entrypoints.server.protocol.chat import AssistantMessage
from runtime.core.tool_parsers.interface import ToolCallDelta

Blocks = list[TextOutput | ThinkingOutput | ToolUseOutput]


def content_blocks(message: AssistantMessage) -> Blocks:
    """The blocks of a whole answer."""
    blocks: Blocks = []
    if message.reasoning:
        blocks.append(ThinkingOutput(thinking=message.reasoning))
    if message.content:
        blocks.append(TextOutput(text=message.content))
    for call in message.tool_calls or ():
        function = call.function
        blocks.append(
            ToolUseOutput(
                id=call.id or "",
                name=function.name or "",
                input=call_input(function.arguments or ""),
            )
        )
    return blocks


def call_input(arguments: str) -> dict[str, Any]:
    """A call's arguments; of those of a call that was cut, what is complete."""
    try:
        value = from_json(arguments, allow_partial=True)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def named_event(name: str, **fields: Any) -> bytes:
    """An event, whose name is also its type."""
    return event(msgspec.json.encode({"type": name, **fields}), name)


class BlockStream:
    """Tells an answer's blocks while it grows: one after the other, each begun and ended once."""

    def __init__(self) -> None:
        self._index = -1
        self._open: str | int | None = None
        """What block is open: text, thinking, or a call's number."""

    def write(self, part: AnswerPart) -> Iterator[bytes]:
        """The events of what is new."""
        if part.reasoning:
            yield from self._begin("thinking", ThinkingOutput(thinking=""))
            yield self._delta("thinking_delta", thinking=part.reasoning)
        if part.content:
            yield from self._begin("text", TextOutput(text=""))
            yield self._delta("text_delta", text=part.content)
        for call in part.calls:
            yield from self._call(call)

    def close(self) -> Iterator[bytes]:
        """The end of the block that is open."""
        if self._open is not None:
            yield named_event("content_block_stop", index=self._index)
        self._open = None

    def _call(self, call: ToolCallDelta) -> Iterator[bytes]:
        if call.id is not None:
            block = ToolUseOutput(id=call.id, name=call.name or "", input={})
            yield from self._begin(call.index, block)
        if call.arguments:
            yield self._delta("input_json_delta", partial_json=call.arguments)

    def _begin(self, what: str | int, block: Answer) -> Iterator[bytes]:
        if self._open == what:
            return
        yield from self.close()
        self._index += 1
        self._open = what
        yield named_event(
            "content_block_start", index=self._index, content_block=block.model_dump()
        )
        if self._index == 0:
            # Clients are to expect them anywhere.
            yield named_event("ping")

    def _delta(self, kind: str, **fields: Any) -> bytes:
        delta = {"type": kind, **fields}
        return named_event("content_block_delta", index=self._index, delta=delta)
