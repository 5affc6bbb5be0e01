"""The format of Qwen3-Coder: tags, with each argument as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.core.tool_parsers.blocks import Block, BlockParser
from runtime.core.tool_parsers.interface import Tool
from runtime.core.tool_parsers.json_text import Call, load, named_call

OPEN, CLOSE = "<tool_call>", "</tool_call>"
FUNCTION, FUNCTION_END = "<function=", "</function>"
_FUNCTION = re.compile(r"\s*<function=([^>\n]+)>(.*?)</function>\s*", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>\s*", re.DOTALL)


class Qwen3CoderToolParser(BlockParser):
    """``<tool_call><function=f><parameter=a>1</parameter></function></tool_call>``, on lines.

    An argument's type is that of the tool's schema; where that has none, it is a string. The outer
    tags may be missing.
    """

    name = "qwen3_coder"
    marks = (OPEN, FUNCTION)

    def __init__(self, tools: Sequence[Tool] = ()) -> None:
        super().__init__(tools)
        self._types = {name: argument_types(schema) for name, schema in parameters_of(tools)}

    def begin(self, mark: str) -> Block:
        """A block up to the mark's closing tag."""
        return _Tagged(mark, CLOSE if mark == OPEN else FUNCTION_END, self._types)


class _Tagged(Block):
    def __init__(self, mark: str, close: str, types: Mapping[str, Mapping[str, set[str]]]) -> None:
        self._mark, self._close, self._types = mark, close, types
        self._searched = len(mark)

    def end(self, text: str) -> int | None:
        if self._mark == OPEN and self._searched == len(OPEN):
            # A value may have the closing tag in it, as long as its function is open.
            behind = text[len(OPEN) :].lstrip()
            if FUNCTION.startswith(behind[: len(FUNCTION)]) and len(behind) < len(FUNCTION):
                return None
            if behind.startswith(FUNCTION):
                function_end = text.find(FUNCTION_END)
                if function_end < 0:
                    return None
                self._searched = function_end
        place = text.find(self._close, self._searched)
        if place < 0:
            self._searched = max(self._searched, len(text) - len(self._close) + 1)
            return None
        return place + len(self._close)

    def calls(self, text: str) -> list[Call] | None:
        if self._mark == OPEN:
            text = text.removeprefix(OPEN).removesuffix(CLOSE)
        calls: list[Call] = []
        at = 0
        while at < len(text):
            function = _FUNCTION.match(text, at)
            arguments = None if function is None else self._arguments(function[1], function[2])
            if function is None or arguments is None:
                return None
            call = named_call(function[1], arguments)
            if call is None:
                return None
            calls.append(call)
            at = function.end()
        return calls or None

    def _arguments(self, function: str, text: str) -> dict[str, Any] | None:
        types = self._types.get(function.strip(), {})
        arguments: dict[str, Any] = {}
        at = 0
        text = text.strip()
        while at < len(text):
            parameter = _PARAMETER.match(text, at)
            if parameter is None:
                return None
            name = parameter[1].strip()
            arguments[name] = typed(parameter[2], types.get(name, {"string"}))
            at = parameter.end()
        return arguments


def parameters_of(tools: Sequence[Tool]) -> list[tuple[str, Mapping[str, Any]]]:
    """Name and parameter schema of each tool that is a function."""
    functions = [tool.get("function", tool) for tool in tools if isinstance(tool, Mapping)]
    return [
        (function["name"], function.get("parameters") or {})
        for function in functions
        if isinstance(function, Mapping) and isinstance(function.get("name"), str)
    ]


def argument_types(schema: Any) -> dict[str, set[str]]:
    """JSON types that a schema names for each property; none where it names none."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return {}
    return {name: _types(part) or {"string"} for name, part in properties.items()}


def _types(schema: Any) -> set[str]:
    if not isinstance(schema, Mapping):
        return set()
    named = schema.get("type")
    found = {named} if isinstance(named, str) else set()
    found |= {each for each in named if isinstance(each, str)} if isinstance(named, list) else set()
    for key in ("anyOf", "oneOf", "allOf"):
        parts = schema.get(key)
        for part in parts if isinstance(parts, list) else ():
            found |= _types(part)
    return found


def typed(text: str, types: set[str]) -> Any:
    """A value of one of the types, as JSON reads the text; else the text itself."""
    try:
        value = load(text)
    except ValueError:
        lowered = text.strip().lower()
        words = {"true": True, "false": False} if "boolean" in types else {}
        return words.get(lowered, text)
    return value if _type_of(value) & types else text


def _type_of(value: Any) -> set[str]:
    match value:
        case bool():
            return {"boolean"}
        case int():
            return {"integer", "number"}
        case float():
            return {"number"}
        case str():
            # A quoted string is meant as it stands.
            return set()
        case None:
            return {"null"}
        case list():
            return {"array"}
        case _:
            return {"object"}
