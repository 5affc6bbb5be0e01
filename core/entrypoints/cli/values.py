"""From what people write to a field's value: the words of a command line, or YAML."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

_SIZE = re.compile(r"([+-]?\d+(?:\.\d+)?)([kmgtKMGT])")
_POWERS: Mapping[str, int] = {"k": 1, "m": 2, "g": 3, "t": 4}


def members(hint: Any) -> list[Any]:
    """The members of a union but None; a Literal becomes the tuple of its values."""
    found = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return [
        get_args(member) if get_origin(member) is Literal else member
        for member in found
        if member is not type(None)
    ]


def element(hint: Any) -> Any:
    """The type of one item where a field holds several, ``tuple[X, ...]``; else None."""
    for member in members(hint):
        if get_origin(member) is tuple:
            return get_args(member)[0]
    return None


def words_of(hint: Any) -> list[str]:
    """The words that a field takes whatever else it takes: those of its Literals."""
    return [str(word) for it in members(hint) if isinstance(it, tuple) for word in it]


def parse(hint: Any, text: str) -> Any:
    """One word as a value of a field's type.

    Raises:
        ValueError: it is none; the message says what is expected.
    """
    kinds = members(hint)
    words = words_of(hint)
    if text in words:
        return text
    if bool in kinds:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ValueError(f"{text!r} is neither true nor false")
    if any(get_origin(kind) is Mapping for kind in kinds):
        return json_object(text)
    if int in kinds:
        return _number(text, words, integer)
    if float in kinds:
        return _number(text, words, float)
    if str in kinds:
        return text
    raise ValueError(f"{text!r} is not one of {', '.join(words)}")


def from_yaml(hint: Any, value: Any) -> Any:
    """A value of a YAML file as one of a field's type.

    Raises:
        ValueError: it is none; the message says what is expected.
    """
    one = element(hint)
    if one is not None:
        items = value if isinstance(value, list) else [value]
        return tuple(from_yaml(one, item) for item in items)
    kinds = members(hint)
    if value is None and type(None) in get_args(hint):
        return None
    if isinstance(value, dict) and any(get_origin(kind) is Mapping for kind in kinds):
        return value
    if isinstance(value, bool) is not (bool in kinds) or isinstance(value, dict | list):
        raise ValueError(f"{json.dumps(value, default=str)} is not {expected(hint)}")
    return value if isinstance(value, bool) else parse(hint, str(value))


def expected(hint: Any) -> str:
    """What a field takes, in words."""
    names = {bool: "true or false", int: "an integer", float: "a number", str: "text"}
    known = [names.get(kind, "an object") for kind in members(hint) if not isinstance(kind, tuple)]
    return " or ".join([*known, *(repr(word) for word in words_of(hint))])


def integer(text: str) -> int:
    """An integer, also as a size: ``32k`` is 32,000 and ``32K`` is 32,768; so for m, g and t.

    Raises:
        ValueError: it is neither, or not whole.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        return int(text)
    number, unit = match.groups()
    base = 1000 if unit.islower() else 1024
    whole, _, fraction = number.partition(".")
    scale = int(base ** _POWERS[unit.lower()])
    rest, remainder = divmod(int(fraction or 0) * scale, 10 ** len(fraction))
    if remainder:
        raise ValueError(f"{text} is not whole")
    return int(whole) * scale + int(-rest if number.startswith("-") else rest)


def json_object(text: str) -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
        ValueError: it is none.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _number(text: str, words: list[str], convert: Any) -> Any:
    try:
        return convert(text)
    except ValueError:
        kind = "an integer" if convert is integer else "a number"
        choices = " or ".join([kind, *(repr(word) for word in words)])
        raise ValueError(f"{text!r} is not {choices}") from None
