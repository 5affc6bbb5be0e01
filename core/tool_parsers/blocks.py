"""Texts in which calls are blocks: from a mark to the block's end.

A block is told when it is complete, since only then it is known to be a call: what is malformed is
content, character for character.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from runtime.core.engine.stop_strings import held_back
from runtime.core.tool_parsers.interface import (
    ToolCallDelta,
    ToolCallStream,
    ToolDelta,
    ToolParser,
)
from runtime.core.tool_parsers.json_text import Call, JsonExtent

BLANKS = " \t\r\n"


class Block(ABC):
    """A block that has begun. Its methods are given its text from the mark on."""

    @abstractmethod
    def end(self, text: str) -> int | None:
        """Where the block ends; None while its end has not come. The text only grows."""

    @abstractmethod
    def calls(self, text: str) -> list[Call] | None:
        """The block's calls; None where it is malformed. It may lack its end."""


class JsonBlock(Block):
    """A JSON value, with whatever stands before it."""

    def __init__(self, read: Callable[[str, int], list[Call] | None], opening: str = "{") -> None:
        """``read`` is given the text and where the value begins: at an ``opening`` character."""
        self._read = read
        self._opening = opening
        self._start: int | None = None
        self._extent: JsonExtent | None = None

    def end(self, text: str) -> int | None:
        """Behind the value."""
        if self._extent is None:
            places = [place for char in self._opening if (place := text.find(char)) >= 0]
            if not places:
                return None
            self._start = min(places)
            self._extent = JsonExtent(self._start)
        return self._extent.scan(text)

    def calls(self, text: str) -> list[Call] | None:
        """What ``read`` makes of it."""
        return None if self._start is None else self._read(text, self._start)


class BlockParser(ToolParser):
    """A format whose blocks begin with marks."""

    marks: Sequence[str] = ()
    separators = ""
    """Characters that may stand between calls, and behind the last one, besides blanks."""

    def stream(self) -> ToolCallStream:
        """A parser of one output."""
        return BlockStream(self)

    @abstractmethod
    def begin(self, mark: str) -> Block:
        """The block that begins with a mark."""

    def locate(self, text: str, *, at_start: bool, after_call: bool) -> tuple[int, Block | None]:
        """Where the next block begins, and the block.

        None and how much is content for certain, where none has begun. ``at_start`` and
        ``after_call`` say whether nothing but blanks, or nothing but separators, came since.
        """
        found = [(place, mark) for mark in self.marks if (place := text.find(mark)) >= 0]
        if found:
            place, mark = min(found)
            return place, self.begin(mark)
        return len(text) - held_back(text, self.marks), None


class BlockStream(ToolCallStream):
    """One output of a block parser."""

    def __init__(self, parser: BlockParser) -> None:
        self._parser = parser
        self._text = ""
        """Not told yet; from the mark on where a block has begun."""
        self._block: Block | None = None
        self._content = _Content(parser.separators)
        self._count = 0
        self._told = ""
        self._calls: list[ToolCallDelta] = []

    def push(self, text: str) -> ToolDelta:
        """Take in more text."""
        self._text += text
        while self._text:
            if self._block is None and not self._begin():
                break
            assert self._block is not None
            end = self._block.end(self._text)
            if end is None:
                break
            self._close(end)
        return self._delta()

    def finish(self) -> ToolDelta:
        """Tell the rest."""
        if self._block is not None:
            self._close(len(self._text))
        self._told += self._content.add(self._text) + self._content.rest()
        self._text = ""
        return self._delta()

    def _begin(self) -> bool:
        """Tell what is content for certain; returns whether a block begins behind it."""
        place, self._block = self._parser.locate(
            self._text, at_start=self._content.at_start, after_call=self._content.after_call
        )
        self._told += self._content.add(self._text[:place])
        self._text = self._text[place:]
        return self._block is not None

    def _close(self, end: int) -> None:
        assert self._block is not None
        text, self._text = self._text[:end], self._text[end:]
        calls = self._block.calls(text)
        self._block = None
        if calls is None:
            self._told += self._content.add(text)
            return
        self._content.call()
        for call in calls:
            self._calls.append(
                ToolCallDelta(self._count, self._parser.make_id(), call.name, call.arguments)
            )
            self._count += 1

    def _delta(self) -> ToolDelta:
        delta = ToolDelta(self._told, tuple(self._calls))
        self._told, self._calls = "", []
        return delta


class _Content:
    """Content without the blanks and separators around calls."""

    def __init__(self, separators: str) -> None:
        self._dropped = BLANKS + separators
        self._held = ""
        """Blanks that are content only if more content follows."""
        self.at_start = True
        self.after_call = False

    def add(self, text: str) -> str:
        """What can be told of the content so far."""
        if self.after_call:
            text = text.lstrip(self._dropped)
        text = self._held + text
        told = text.rstrip(BLANKS)
        self._held = text[len(told) :]
        if told:
            self.at_start = self.after_call = False
        return told

    def call(self) -> None:
        """A call stands here."""
        self._held = ""
        self.at_start, self.after_call = False, True

    def rest(self) -> str:
        """What was held back, at the end of the text."""
        return self._held
