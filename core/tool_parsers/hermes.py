"""Hermes' format, which Qwen 2.5 and 3 use too: JSON between tags."""

from __future__ import annotations

from runtime.core.tool_parsers.blocks import BLANKS, Block, BlockParser
from runtime.core.tool_parsers.json_text import Call, JsonExtent, calls_of

OPEN, CLOSE = "<tool_call>", "</tool_call>"


class HermesToolParser(BlockParser):
    """``<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>``, any number of them."""

    name = "hermes"
    marks = (OPEN,)

    def begin(self, mark: str) -> Block:
        """A block of JSON."""
        return _TaggedJson()


class _TaggedJson(Block):
    """Up to the closing tag that is not within a string of the JSON."""

    def __init__(self) -> None:
        self._extent: JsonExtent | None = None
        self._searched = len(OPEN)

    def end(self, text: str) -> int | None:
        while (place := text.find(CLOSE, self._searched)) >= 0:
            if self._extent is None:
                body = text[len(OPEN) : place]
                self._extent = JsonExtent(len(OPEN) + len(body) - len(body.lstrip(BLANKS)))
            complete = self._extent.scan(text, place) is not None
            if complete or not self._extent.in_string:
                return place + len(CLOSE)
            self._searched = place + 1
        self._searched = max(self._searched, len(text) - len(CLOSE) + 1)
        return None

    def calls(self, text: str) -> list[Call] | None:
        return calls_of(text.removeprefix(OPEN).removesuffix(CLOSE))
