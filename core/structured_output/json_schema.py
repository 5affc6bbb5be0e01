"""JSON schemas that can be enforced while an output is generated, and why others cannot.

A grammar cannot say everything that a schema can, and compilers leave out silently what they do
not know. Here such schemas are refused, so that an output of a schema that was taken is valid.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from runtime.core.structured_output.interface import GrammarError

MAX_DEPTH = 64
"""Most levels of nesting in a schema."""

Schema = Mapping[str, Any] | bool

_NEVER = frozenset(
    ("not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies")
    + ("uniqueItems", "contains", "minContains", "maxContains", "$dynamicRef", "$recursiveRef")
)
"""Keywords that no grammar here enforces."""
_ALONE = ("$ref", "anyOf", "oneOf", "allOf")
"""Keywords beside which nothing else may restrict the value."""
_WHOLE = ("enum", "const")
"""Keywords that list the values; what stands beside them is checked of each."""
_OF_TYPES: Mapping[str, tuple[str, ...]] = {
    "minimum": ("integer", "number"),
    "maximum": ("integer", "number"),
    "exclusiveMinimum": ("integer", "number"),
    "exclusiveMaximum": ("integer", "number"),
    "multipleOf": ("integer",),
    "minLength": ("string",),
    "maxLength": ("string",),
    "pattern": ("string",),
    "format": ("string",),
    "items": ("array",),
    "prefixItems": ("array",),
    "minItems": ("array",),
    "maxItems": ("array",),
    "unevaluatedItems": ("array",),
    "properties": ("object",),
    "required": ("object",),
    "additionalProperties": ("object",),
    "patternProperties": ("object",),
    "propertyNames": ("object",),
    "minProperties": ("object",),
    "maxProperties": ("object",),
    "unevaluatedProperties": ("object",),
}
"""Keywords that restrict values of these types only."""
_RESTRICTING = frozenset(("type", *_WHOLE, *_ALONE, *_OF_TYPES))
_ONE_SCHEMA = (
    *("items", "additionalProperties", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "$defs", "definitions")


def checked_schema(text: str) -> str:
    """The schema as it may be compiled.

    Raises:
        GrammarError: it is no JSON, no schema, contradicts itself, refers to itself without end or
            to what is not there, or asks for something that is not enforced.
    """
    schema = _parsed(text)
    _check_meta(schema)
    if not isinstance(schema, dict) or not _RESTRICTING.intersection(schema):
        raise GrammarError(
            f"the schema {text[:40]} says nothing of the value: give it a type, or ask for "
            "json_object"
        )
    for path, part in subschemas(schema):
        if isinstance(part, dict):
            _check(schema, path, part)
        names = part.get("propertyNames") if isinstance(part, dict) else None
        if isinstance(names, dict):
            # Names are strings, whether it says so or not.
            names.setdefault("type", "string")
    _check_end(schema)
    return json.dumps(schema)


def subschemas(schema: Schema, path: str = "#") -> Iterator[tuple[str, Schema]]:
    """A schema and all within it, with their JSON pointers."""
    yield path, schema
    if not isinstance(schema, dict):
        return
    for key in _ONE_SCHEMA:
        if key in schema:
            yield from subschemas(schema[key], f"{path}/{key}")
    for key in _LISTS:
        for index, part in enumerate(schema.get(key, ())):
            yield from subschemas(part, f"{path}/{key}/{index}")
    for key in _MAPS:
        for name, part in schema.get(key, {}).items():
            yield from subschemas(part, f"{path}/{key}/{name}")


def _parsed(text: str) -> Any:
    try:
        schema = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise GrammarError(f"the schema is not JSON: {error}") from None
    if _deeper_than(schema, MAX_DEPTH):
        raise GrammarError(f"the schema is nested more than {MAX_DEPTH} levels deep")
    return schema


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _deeper_than(value: Any, levels: int) -> bool:
    layer = [value]
    for _ in range(2 * levels):
        nested: list[Any] = []
        for item in layer:
            if isinstance(item, dict):
                nested += item.values()
            elif isinstance(item, list):
                nested += item
        if not nested:
            return False
        layer = nested
    return True


def _check_meta(schema: Any) -> None:
    """Against the metaschema of JSON Schema 2020-12."""
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = "/".join(["#", *map(str, error.path)])
        raise GrammarError(f"not a JSON schema: {where}: {error.message:.300}") from None


def _check(root: Schema, path: str, part: dict[str, Any]) -> None:
    """One schema by itself."""
    never = sorted(key for key in _NEVER & part.keys() if part[key] is not False)
    if never:
        raise GrammarError(f"{path}: {never[0]} is not supported")
    beside = sorted(_RESTRICTING & part.keys())
    for key in _ALONE:
        if key in part and len(beside) > 1:
            other = next(name for name in beside if name != key)
            raise GrammarError(
                f"{path}: {key} beside {other} is not supported: put {other} into what {key} names"
            )
    if len(part.get("allOf", ())) > 1:
        raise GrammarError(f"{path}: allOf of several schemas is not supported: merge them")
    if "$ref" in part:
        _target(root, part["$ref"], path)
    if "enum" in part or "const" in part:
        _check_values(root, path, part)
    else:
        _check_types(path, part)
    missing = sorted(set(part.get("required", ())) - set(part.get("properties", ())))
    if missing:
        raise GrammarError(f"{path}: required has {missing[0]!r}, which properties has not")


def _check_values(root: Schema, path: str, part: dict[str, Any]) -> None:
    """Values that are listed must be valid by what stands beside the list."""
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(root).evolve(schema=part)
    for value in part.get("enum", [part.get("const")]):
        error = next(iter(validator.iter_errors(value)), None)
        if error is not None:
            raise GrammarError(f"{path}: {error.message:.300}")


def _check_types(path: str, part: dict[str, Any]) -> None:
    """Keywords that restrict values of one type are of no effect where that is not named."""
    named = part.get("type", ())
    types = {named} if isinstance(named, str) else set(named)
    if not types and ("properties" in part or "items" in part or "prefixItems" in part):
        # Taken as if they named the type.
        types = {"object"} if "properties" in part else {"array"}
    for key, wanted in _OF_TYPES.items():
        if key in part and not types.intersection(wanted):
            raise GrammarError(f"{path}: {key} needs type {' or '.join(wanted)} beside it")


def _target(root: Schema, reference: str, path: str) -> Schema:
    """What a reference names, which must be within the schema."""
    if reference != "#" and not reference.startswith("#/"):
        raise GrammarError(f"{path}: $ref {reference!r:.80} is not within the schema ('#/…')")
    found: Any = root
    for step in reference.split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(key)] if isinstance(found, list) else found[key]
        except (KeyError, IndexError, ValueError, TypeError):
            raise GrammarError(f"{path}: $ref {reference!r:.80} names nothing") from None
    if not isinstance(found, (dict, bool)):
        raise GrammarError(f"{path}: $ref {reference!r:.80} names no schema")
    return found


def _check_end(root: dict[str, Any]) -> None:
    """Some value of the schema must be finite.

    A reference counts as endless until what it names is shown to have a finite value without it:
    the least fixed point.
    """
    parts = dict(subschemas(root))
    references = {p["$ref"] for p in parts.values() if isinstance(p, dict) and "$ref" in p}
    finite: set[str] = set()
    while True:
        more = {r for r in references - finite if _finite(_target(root, r, "#"), finite)}
        if not more:
            break
        finite |= more
    if not _finite(root, finite):
        endless = sorted(references - finite)
        raise GrammarError(f"$ref {endless[0]!r:.80} refers to itself without end")


def _finite(schema: Schema, known: set[str]) -> bool:
    if not isinstance(schema, dict):
        return True
    if "$ref" in schema:
        return schema["$ref"] in known
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return any(_finite(part, known) for part in schema[key])
    if "allOf" in schema:
        return all(_finite(part, known) for part in schema["allOf"])
    named = schema.get("type")
    if isinstance(named, list) and set(named) - {"object", "array"}:
        return True
    properties = schema.get("properties", {})
    if not all(_finite(properties[name], known) for name in schema.get("required", ())):
        return False
    count = schema.get("minItems", 0)
    firsts = schema.get("prefixItems", [])
    needed = list(firsts[:count])
    if count > len(firsts):
        needed.append(schema.get("items", True))
    return all(_finite(part, known) for part in needed)
