"""What a reasoning parser gives: thoughts apart from content, whole or while the text grows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class ReasoningOutput:
    """What a text means, or what is new of it. Blanks around the marks belong to neither."""

    reasoning: str = ""
    content: str = ""


class ReasoningStream(ABC):
    """One output while it grows. However its text is cut, the parts put together are the same."""

    @abstractmethod
    def push(self, text: str) -> ReasoningOutput:
        """Take in more text; returns what is certain and has not been told."""

    @abstractmethod
    def finish(self) -> ReasoningOutput:
        """The text is complete; returns the rest."""


class ReasoningParser(ABC):
    """The way in which a family of models marks its thoughts. It never raises."""

    name: ClassVar[str]

    @abstractmethod
    def stream(self) -> ReasoningStream:
        """A parser of one output."""

    def parse(self, text: str) -> ReasoningOutput:
        """Parse a whole text: what its stream gives, put together."""
        stream = self.stream()
        first, rest = stream.push(text), stream.finish()
        return ReasoningOutput(first.reasoning + rest.reasoning, first.content + rest.content)
