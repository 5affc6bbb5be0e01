"""Calls that are JSON objects, one after the other, from the beginning of the text on."""

from __future__ import annotations

from runtime.core.tool_parsers.blocks import BLANKS, Block, BlockParser, JsonBlock
from runtime.core.tool_parsers.json_text import Call, calls_of


class JsonSequenceParser(BlockParser):
    """Objects with ``separators`` between them; the first may stand behind ``opening``."""

    opening = ""
    """Characters that may stand before the first object, besides blanks."""

    def begin(self, mark: str) -> Block:
        """A block of one object, with what stands before it."""
        before = self.opening + self.separators

        def read(text: str, start: int) -> list[Call] | None:
            return _read(text[len(mark) :], start - len(mark), before)

        return JsonBlock(read)

    def locate(self, text: str, *, at_start: bool, after_call: bool) -> tuple[int, Block | None]:
        """An object at the beginning or behind a call; a mark anywhere."""
        if at_start or after_call:
            rest = text.lstrip(BLANKS + (self.opening if at_start else self.separators))
            if not rest or any(mark.startswith(rest) and mark != rest for mark in self.marks):
                return 0, None
            if rest.startswith("{"):
                return 0, self.begin("")
        return super().locate(text, at_start=at_start, after_call=after_call)


class Llama3JsonToolParser(JsonSequenceParser):
    """``{"name": "f", "parameters": {"a": 1}}``; several with ``;`` between them.

    ``<|python_tag|>`` may stand before the first one, and then content before that.
    """

    name = "llama3_json"
    marks = ("<|python_tag|>",)
    separators = ";"


def _read(text: str, start: int, before: str) -> list[Call] | None:
    """The call of an object, if nothing but ``before`` and blanks stand before it."""
    return None if text[:start].strip(BLANKS + before) else calls_of(text[start:])
