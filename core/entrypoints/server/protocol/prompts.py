"""A field that holds one or many prompts, each a text or token ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import WithJsonSchema

from runtime.core.errors import RequestError

MAX_PROMPTS = 2048
"""Prompts of one request."""

_TOKENS = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}


def texts_or_ids(name: str) -> Callable[[Any], list[str] | list[list[int]]]:
    """A check of the field of that name, which makes its value a list of prompts of one kind.

    It raises RequestError where the value is something else.
    """

    def check(value: Any) -> list[str] | list[list[int]]:
        items = value if isinstance(value, list) else [value]
        if not isinstance(value, (str, list)):
            raise RequestError(f"{name} must be a text, token ids, or a list of either", name)
        if not items:
            raise RequestError(f"{name} is empty", name)
        if _are_ids(items):
            return [items]
        if len(items) > MAX_PROMPTS:
            raise RequestError(
                f"{name} has {len(items)} prompts; at most {MAX_PROMPTS} are taken", name
            )
        for index, item in enumerate(items):
            at = f"{name}[{index}]" if isinstance(value, list) else name
            if not isinstance(item, str) and not (isinstance(item, list) and _are_ids(item)):
                raise RequestError(
                    f"{at} must be a text, or a list of token ids of 0 and above", name
                )
            if type(item) is not type(items[0]):
                raise RequestError(f"{name} mixes texts and token ids", name)
            if not item:
                raise RequestError(f"{at} is empty", name)
        return items

    return check


def _are_ids(items: list[Any]) -> bool:
    return all(type(item) is int and 0 <= item < 2**31 for item in items)


def schema(title: str) -> WithJsonSchema:
    """What such a field takes, for ``/openapi.json``."""
    return WithJsonSchema(
        {
            "title": title,
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
                _TOKENS,
                {"type": "array", "items": _TOKENS, "minItems": 1},
            ],
        }
    )
