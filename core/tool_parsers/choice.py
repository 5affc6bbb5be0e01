"""``tool_choice``: calls that a model must make, bound by a grammar, so that any model obeys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.core.errors import RequestError
from runtime.core.structured_output.params import StructuredOutputs
from runtime.core.tool_parsers.blocks import BLANKS
from runtime.core.tool_parsers.interface import (
    Tool,
    ToolCallDelta,
    ToolCallStream,
    ToolDelta,
    ToolParser,
)
from runtime.core.tool_parsers.json_sequence import JsonSequenceParser
from runtime.core.tool_parsers.qwen3_coder import parameters_of

_NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "additionalProperties": False}
_VALUES = frozenset(("const", "enum", "default", "examples"))
"""Keywords in which ``$ref`` would be a value."""


def required_calls(tools: Sequence[Tool], *, parallel: bool = True) -> StructuredOutputs:
    """One call at least, of any of the tools: a JSON array of ``{"name", "arguments"}``.

    Parse the output with :class:`RequiredToolParser`. Without ``parallel`` it is one call.

    Raises:
        RequestError: there is no tool.
    """
    named = parameters_of(tools)
    if not named:
        raise RequestError("tool_choice 'required' needs tools", "tools")
    definitions: dict[str, Any] = {}
    calls = []
    for index, (name, schema) in enumerate(named):
        place = f"tool{index}"
        definitions[place] = _moved(schema or _NO_ARGUMENTS, f"#/$defs/{place}")
        calls.append(
            {
                "type": "object",
                "properties": {
                    "name": {"const": name},
                    "arguments": {"$ref": f"#/$defs/{place}"},
                },
                "required": ["name", "arguments"],
            }
        )
    items = calls[0] if len(calls) == 1 else {"anyOf": calls}
    array: dict[str, Any] = {"type": "array", "items": items, "minItems": 1}
    if not parallel:
        array["maxItems"] = 1
    return StructuredOutputs(json={**array, "$defs": definitions}, disable_any_whitespace=True)


def named_call_arguments(tools: Sequence[Tool], name: str) -> StructuredOutputs:
    """The arguments of one call of a tool: the output is what its parameters' schema allows.

    Parse the output with :class:`NamedToolParser`.

    Raises:
        RequestError: there is no such tool.
    """
    for known, schema in parameters_of(tools):
        if known == name:
            return StructuredOutputs(json=schema or _NO_ARGUMENTS, disable_any_whitespace=True)
    raise RequestError(f"tool_choice names {name!r:.100}, which tools has not", "tool_choice")


def _moved(schema: Any, root: str) -> Any:
    """A schema whose references to its own root are to where it stands now."""
    if isinstance(schema, list):
        return [_moved(part, root) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    moved: dict[str, Any] = {}
    for key, part in schema.items():
        local = key == "$ref" and isinstance(part, str) and part.startswith("#")
        if local:
            moved[key] = root + part[1:]
        else:
            moved[key] = part if key in _VALUES else _moved(part, root)
    return moved


class RequiredToolParser(JsonSequenceParser):
    """Output of :func:`required_calls`."""

    name = "required"
    opening = "["
    separators = ",]"


class NamedToolParser(ToolParser):
    """Output of :func:`named_call_arguments`: all of it is the arguments, told as they come.

    An output that was cut has arguments that are cut.
    """

    name = "named"

    def __init__(self, function: str, tools: Sequence[Tool] = ()) -> None:
        super().__init__(tools)
        self.function = function

    def stream(self) -> ToolCallStream:
        """A parser of one output."""
        return _NamedStream(self)


class _NamedStream(ToolCallStream):
    def __init__(self, parser: NamedToolParser) -> None:
        self._parser = parser
        self._begun = False
        self._held = ""

    def push(self, text: str) -> ToolDelta:
        text = self._held + text
        if not self._begun:
            text = text.lstrip(BLANKS)
        told = text.rstrip(BLANKS)
        self._held = text[len(told) :]
        if not told:
            return ToolDelta()
        if self._begun:
            return ToolDelta(calls=(ToolCallDelta(0, arguments=told),))
        self._begun = True
        first = ToolCallDelta(0, self._parser.make_id(), self._parser.function, told)
        return ToolDelta(calls=(first,))

    def finish(self) -> ToolDelta:
        return ToolDelta()
