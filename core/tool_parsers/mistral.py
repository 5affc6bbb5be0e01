"""Mistral's formats."""

from __future__ import annotations

import re
import secrets
import string

from runtime.core.tool_parsers.blocks import BLANKS, Block, BlockParser, JsonBlock
from runtime.core.tool_parsers.json_text import Call, calls_of, load, named_call

MARK = "[TOOL_CALLS]"
_NAME = re.compile(r"\s*([\w.:/-]+)(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?\s*")
_LETTERS = string.ascii_letters + string.digits


class MistralToolParser(BlockParser):
    """``[TOOL_CALLS][{"name": "f", "arguments": {}}, …]``, and ``[TOOL_CALLS]f{"a": 1}`` of later
    models, with or without ``[ARGS]`` behind the name.
    """

    name = "mistral"
    marks = (MARK,)

    def begin(self, mark: str) -> Block:
        """A block of either form."""
        return _MistralBlock()

    def make_id(self) -> str:
        """Nine letters and digits, as the models' chat templates demand."""
        return "".join(secrets.choice(_LETTERS) for _ in range(9))


class _MistralBlock(Block):
    """The first character behind the mark says which form it is."""

    def __init__(self) -> None:
        self._json: JsonBlock | None = None

    def end(self, text: str) -> int | None:
        if self._json is None:
            first = text[len(MARK) :].lstrip(BLANKS)[:1]
            if not first:
                return None
            is_list = first == "["
            self._json = JsonBlock(*((_read_list, "[") if is_list else (_read_named, "{")))
        # The mark has brackets of its own, so the value is looked for behind it.
        end = self._json.end(text[len(MARK) :])
        return None if end is None else end + len(MARK)

    def calls(self, text: str) -> list[Call] | None:
        return None if self._json is None else self._json.calls(text[len(MARK) :])


def _read_list(text: str, start: int) -> list[Call] | None:
    return calls_of(text[start:])


def _read_named(text: str, start: int) -> list[Call] | None:
    name = _NAME.fullmatch(text[:start])
    if name is None:
        return None
    try:
        call = named_call(name[1], load(text[start:]))
    except ValueError:
        return None
    return None if call is None else [call]
