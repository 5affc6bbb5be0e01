"""Thoughts between ``<think>`` and ``</think>``."""

from __future__ import annotations

from enum import Enum, auto

from runtime.core.engine.stop_strings import held_back
from runtime.core.reasoning.interface import ReasoningOutput, ReasoningParser, ReasoningStream

OPEN, CLOSE = "<think>", "</think>"
BLANKS = " \t\r\n"


class _Part(Enum):
    START = auto()
    REASONING = auto()
    CONTENT_BEGINS = auto()
    CONTENT = auto()


class ThinkTagsParser(ReasoningParser):
    """Thoughts at the beginning, up to the closing tag, or to the end if it does not come."""

    opened = False
    """Whether the prompt ends within the thoughts, so that the opening tag need not come."""

    def __init__(self, opened: bool | None = None) -> None:
        """``opened`` says how this request's prompt ends; None is as the models' templates do."""
        if opened is not None:
            self.opened = opened

    def stream(self) -> ReasoningStream:
        """A parser of one output."""
        return _ThinkStream(self.opened)


class DeepseekR1ReasoningParser(ThinkTagsParser):
    """DeepSeek-R1: the prompt opens the thoughts. A tag that comes nevertheless is left out."""

    name = "deepseek_r1"
    opened = True


class Qwen3ReasoningParser(ThinkTagsParser):
    """Qwen3: the output opens its thoughts, or has none."""

    name = "qwen3"


class _ThinkStream(ReasoningStream):
    def __init__(self, opened: bool) -> None:
        self._opened = opened
        self._part = _Part.START
        self._text = ""
        """Not told yet."""

    def push(self, text: str) -> ReasoningOutput:
        self._text += text
        reasoning = content = ""
        if self._part is _Part.START:
            self._start()
        if self._part is _Part.REASONING:
            reasoning = self._reasoning()
        if self._part is _Part.CONTENT_BEGINS:
            self._text = self._text.lstrip(BLANKS)
            if self._text:
                self._part = _Part.CONTENT
        if self._part is _Part.CONTENT:
            content, self._text = self._text, ""
        return ReasoningOutput(reasoning, content)

    def finish(self) -> ReasoningOutput:
        text, self._text = self._text, ""
        match self._part:
            case _Part.REASONING:
                return ReasoningOutput(reasoning=text.rstrip(BLANKS))
            case _Part.START if text.lstrip(BLANKS).startswith(OPEN):
                return ReasoningOutput()
            case _Part.START if self._opened:
                return ReasoningOutput(reasoning=text.strip(BLANKS))
            case _Part.CONTENT_BEGINS:
                return ReasoningOutput()
            case _:
                return ReasoningOutput(content=text)

    def _start(self) -> None:
        """Find out whether thoughts begin; the text stays as it is while that is open."""
        rest = self._text.lstrip(BLANKS)
        if OPEN.startswith(rest[: len(OPEN)]) and len(rest) < len(OPEN):
            return
        if rest.startswith(OPEN):
            rest = rest[len(OPEN) :].lstrip(BLANKS)
            if not rest:
                return
            self._part, self._text = _Part.REASONING, rest
        elif self._opened:
            self._part, self._text = _Part.REASONING, rest
        else:
            self._part = _Part.CONTENT

    def _reasoning(self) -> str:
        """What is certain of the thoughts; blanks before the closing tag are left out."""
        place = self._text.find(CLOSE)
        if place >= 0:
            told = self._text[:place].rstrip(BLANKS)
            self._text = self._text[place + len(CLOSE) :]
            self._part = _Part.CONTENT_BEGINS
            return told
        safe = self._text[: len(self._text) - held_back(self._text, (CLOSE,))]
        told = safe.rstrip(BLANKS)
        self._text = self._text[len(told) :]
        return told
