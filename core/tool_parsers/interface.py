"""What a tool parser gives: calls apart from content, whole or while the text grows."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

Tool = Mapping[str, Any]
"""A tool as the OpenAI API has it: ``{"type": "function", "function": {"name": …}}``."""


@dataclass(frozen=True)
class ToolCall:
    """One call that a model makes."""

    id: str
    name: str
    arguments: str
    """A JSON object; ``{}`` where the call has none."""


@dataclass(frozen=True)
class ToolCallDelta:
    """What is new of one call."""

    index: int
    """Which call, from 0."""
    id: str | None = None
    """Given once, with the call's first delta, as is the name."""
    name: str | None = None
    arguments: str = ""
    """A call's fragments, put together, are its arguments."""


@dataclass(frozen=True)
class ToolDelta:
    """What new text means."""

    content: str = ""
    calls: tuple[ToolCallDelta, ...] = ()


@dataclass(frozen=True)
class ToolOutput:
    """What a whole text means. Blanks around calls belong to neither."""

    content: str
    calls: tuple[ToolCall, ...] = ()


class ToolCallStream(ABC):
    """One output while it grows. However its text is cut, the deltas mean the same."""

    @abstractmethod
    def push(self, text: str) -> ToolDelta:
        """Take in more text; returns what is certain and has not been told."""

    @abstractmethod
    def finish(self) -> ToolDelta:
        """The text is complete; returns the rest. What is no call after all is content."""


class ToolParser(ABC):
    """The way in which a family of models writes calls. It never raises for a model's text."""

    name: ClassVar[str]

    def __init__(self, tools: Sequence[Tool] = ()) -> None:
        """``tools`` are those of the request."""
        self.tools = tools

    @abstractmethod
    def stream(self) -> ToolCallStream:
        """A parser of one output."""

    def make_id(self) -> str:
        """A new id of a call."""
        return f"call_{secrets.token_hex(12)}"

    def parse(self, text: str) -> ToolOutput:
        """Parse a whole text: what its stream gives, put together."""
        stream, output = self.stream(), ToolAccumulator()
        output.add(stream.push(text))
        output.add(stream.finish())
        return output.output


@dataclass
class ToolAccumulator:
    """Puts deltas together, as a client does."""

    content: str = ""
    calls: list[ToolCall] = field(default_factory=list)

    def add(self, delta: ToolDelta) -> None:
        """Take in a delta."""
        self.content += delta.content
        for part in delta.calls:
            if part.index == len(self.calls):
                self.calls.append(ToolCall(part.id or "", part.name or "", ""))
            call = self.calls[part.index]
            self.calls[part.index] = replace(call, arguments=call.arguments + part.arguments)

    @property
    def output(self) -> ToolOutput:
        """What there is so far."""
        return ToolOutput(self.content, tuple(self.calls))
