"""What a request may ask of the form of its output."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from runtime.core.errors import RequestError

FIELD = "structured_outputs"
MAX_BYTES = 128 * 1024
"""Largest schema, regular expression, grammar or list of choices, in bytes of UTF-8."""


class ConstraintKind(StrEnum):
    """What a constraint's text is."""

    JSON = "json"
    JSON_OBJECT = "json_object"
    REGEX = "regex"
    CHOICE = "choice"
    GRAMMAR = "grammar"


class Constraint(msgspec.Struct, frozen=True):
    """One request's constraint in the form that backends take. Equal ones compile alike."""

    kind: ConstraintKind
    text: str
    """A JSON schema, a regular expression, a JSON array of choices, or a grammar; empty for
    ``json_object``."""
    any_whitespace: bool = True
    """Whether JSON may have blanks and line breaks between its tokens."""


class StructuredOutputs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The form of an output: exactly one of the first five fields is set.

    Raises:
        RequestError: none is set, several are, or one has a wrong type or is too large.
    """

    json: str | Mapping[str, Any] | None = None
    """A JSON schema, as text or as an object; kept as text."""
    regex: str | None = None
    """A regular expression that the whole output matches."""
    choice: Sequence[str] | None = None
    """The output is one of these texts."""
    grammar: str | None = None
    """A grammar: EBNF with ``::=`` and the rule ``root``, or Lark with the rule ``start``."""
    json_object: bool | None = None
    """True: the output is any JSON object."""
    disable_any_whitespace: bool = False
    """Write JSON in one way: a blank after ``,`` and ``:``, none elsewhere."""

    def __post_init__(self) -> None:
        """Check every field; keep the schema as text and the choices as a tuple."""
        for name in ("json_object", "disable_any_whitespace"):
            if getattr(self, name) not in (None, True, False):
                raise _error(f"{name} must be a boolean")
        # False asks for nothing, as if it were absent.
        if self.json_object is False:
            msgspec.structs.force_setattr(self, "json_object", None)
        given = [kind.value for kind in ConstraintKind if getattr(self, kind.value) is not None]
        if len(given) != 1:
            known = ", ".join(kind.value for kind in ConstraintKind)
            has = " and ".join(given) or "none"
            raise _error(f"needs exactly one of {known}; it has {has}")
        self._normalise()
        size = len(self.constraint.text.encode("utf-8", "surrogatepass"))
        if size > MAX_BYTES:
            raise _error(f"{given[0]} has {size} bytes; at most {MAX_BYTES} are taken")

    @property
    def constraint(self) -> Constraint:
        """The same for a backend."""
        loose = not self.disable_any_whitespace
        if self.json is not None:
            assert isinstance(self.json, str)
            return Constraint(ConstraintKind.JSON, self.json, loose)
        if self.regex is not None:
            return Constraint(ConstraintKind.REGEX, self.regex)
        if self.choice is not None:
            return Constraint(ConstraintKind.CHOICE, json.dumps(self.choice))
        if self.grammar is not None:
            return Constraint(ConstraintKind.GRAMMAR, self.grammar)
        return Constraint(ConstraintKind.JSON_OBJECT, "", loose)

    def _normalise(self) -> None:
        put = msgspec.structs.force_setattr
        if self.json is not None:
            put(self, "json", _schema_text(self.json))
        for name in ("regex", "grammar"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise _error(f"{name} must be a non-empty string")
        if self.choice is not None:
            put(self, "choice", _choices(self.choice))


def _error(rule: str) -> RequestError:
    return RequestError(f"{FIELD}: {rule}", FIELD)


def _schema_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        raise _error(f"json must be a JSON schema as an object or as text, not {value!r:.80}")
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _error(f"json is not a JSON schema: {error}") from None


def _choices(values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise _error("choice must be a non-empty list of strings")
    for value in values:
        if not isinstance(value, str) or not value:
            raise _error(f"choice: {value!r:.80} is not a non-empty string")
    return tuple(values)
