"""JSON in a model's text: where a value ends, and the call that it means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Call:
    """A call without an id."""

    name: str
    arguments: str
    """A JSON object."""


class JsonExtent:
    """Finds the end of a JSON object or array in a text that grows. Each character is seen once."""

    def __init__(self, start: int) -> None:
        """``start`` is the position of the opening bracket."""
        self._at = start
        self._depth = 0
        self._escaped = False
        self.in_string = False
        self.end: int | None = None
        """Behind the closing bracket; None while it has not come."""

    def scan(self, text: str, stop: int | None = None) -> int | None:
        """Go on up to ``stop``, by default to the end of the text; returns :attr:`end`."""
        stop = len(text) if stop is None else stop
        while self.end is None and self._at < stop:
            self._step(text[self._at])
            self._at += 1
            if self._depth == 0:
                self.end = self._at
        return self.end

    def _step(self, char: str) -> None:
        if self.in_string:
            if self._escaped:
                self._escaped = False
            elif char == "\\":
                self._escaped = True
            elif char == '"':
                self.in_string = False
        elif char == '"':
            self.in_string = True
        elif char in "{[":
            self._depth += 1
        elif char in "}]":
            self._depth -= 1


def load(text: str) -> Any:
    """A JSON value.

    Raises:
        ValueError: it is none.
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def dump(value: Any) -> str:
    """JSON text that UTF-8 can hold.

    Raises:
        ValueError: a number is too large for JSON readers.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text if _encodes(text) else json.dumps(value, allow_nan=False)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def call_of(value: Any) -> Call | None:
    """The call that ``{"name": …, "arguments": {…}}`` means; None where it means none.

    ``parameters`` is another name of ``arguments``; both may be absent, or JSON in a string.
    """
    if not isinstance(value, Mapping):
        return None
    arguments = value.get("arguments", value.get("parameters", {}))
    return named_call(value.get("name"), arguments)


def named_call(name: Any, arguments: Any) -> Call | None:
    """A call of a name with arguments, if these are a name and an object."""
    if not isinstance(name, str) or not name.strip() or not _encodes(name):
        return None
    try:
        if isinstance(arguments, str):
            arguments = load(arguments) if arguments.strip() else {}
        if arguments is None:
            arguments = {}
        return Call(name.strip(), dump(arguments)) if isinstance(arguments, Mapping) else None
    except (ValueError, RecursionError):
        return None


def calls_of(text: str) -> list[Call] | None:
    """The calls of a JSON object or array of objects; None where it is none, or one means none."""
    try:
        value = load(text)
    except ValueError:
        return None
    calls = [call_of(item) for item in (value if isinstance(value, list) else [value])]
    known = [call for call in calls if call is not None]
    return known if known and len(known) == len(calls) else None
