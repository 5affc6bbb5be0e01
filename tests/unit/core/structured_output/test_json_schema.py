"""Schemas that are refused, since no grammar would enforce them, or since no value is valid."""

import json

import pytest

from runtime.core.structured_output.interface import GrammarError
from runtime.core.structured_output.json_schema import MAX_DEPTH, checked_schema

pytest.importorskip("jsonschema")


def nested(levels):
    schema = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]}
REFUSED = {
    "no schema": ({"type": "not-a-type"}, "#/type"),
    "a property that is none": ({"properties": {"foo": "bar"}}, "#/properties/foo"),
    "nothing said": ({}, "says nothing"),
    "only words": ({"title": "x", "$defs": {}}, "says nothing"),
    "true": (True, "says nothing"),
    "a list": ([1], "not a JSON schema"),
    "a wrong list of thousands": ({"enum": [1], "required": [5] * 5000}, "#/required"),
    "not": ({"not": {"type": "string"}, "type": "integer"}, "not is not supported"),
    "if": ({"if": {"type": "integer"}, "type": "integer"}, "if is not supported"),
    "unique": ({"type": "array", "uniqueItems": True}, "uniqueItems is not supported"),
    "contains": ({"type": "array", "contains": {"const": 1}}, "contains is not supported"),
    "within": ({"type": "array", "items": {"not": {}, "type": "null"}}, "#/items: not"),
    "a reference and more": ({"$ref": "#", "type": "object"}, "$ref beside type"),
    "branches and more": ({"anyOf": [{"type": "null"}], "minimum": 3}, "anyOf beside minimum"),
    "all of two": ({"allOf": [{"type": "null"}, {"type": "null"}]}, "allOf of several"),
    "a required property that is none": ({"type": "object", "required": ["a"]}, "required has 'a'"),
    "a limit without a type": ({"minimum": 5}, "minimum needs type"),
    "a limit of another type": ({"type": "string", "minItems": 5}, "minItems needs type array"),
    "a number's multiple": ({"type": "number", "multipleOf": 0.5}, "multipleOf needs type"),
    "a value of another type": ({"type": "integer", "enum": ["a"]}, "is not of type"),
    "a value that is too short": ({"type": "string", "const": "a", "minLength": 2}, "too short"),
    "a reference elsewhere": ({"$ref": "http://example.com/s"}, "not within the schema"),
    "a reference by anchor": ({"$ref": "#here"}, "not within the schema"),
    "a reference to nothing": ({"$ref": "#/$defs/a"}, "names nothing"),
    "a reference to no schema": ({"$ref": "#/title", "title": "x"}, "names no schema"),
    "itself": ({"$ref": "#"}, "without end"),
    "itself by a definition": (
        {"$ref": "#/$defs/n", "$defs": {"n": {"$ref": "#/$defs/n"}}},
        "without end",
    ),
    "each other": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        "without end",
    ),
    "a list that never ends": ({"$ref": "#/$defs/node", "$defs": {"node": NODE}}, "without end"),
    "an array of itself": ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "without end"),
    "too deep": (nested(2 * MAX_DEPTH + 1), "levels deep"),
}


@pytest.mark.parametrize(("schema", "words"), REFUSED.values(), ids=REFUSED)
def test_a_schema_is_refused_with_the_reason(schema, words):
    with pytest.raises(GrammarError, match="(?s).") as refused:
        checked_schema(json.dumps(schema))
    assert words in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "nonsense", '{"minimum": NaN}', "[" * 100_000])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(GrammarError, match="not JSON"):
        checked_schema(text)


ENDLESS_ONLY_BY_CHOICE = {
    "an optional property": {"type": "object", "properties": {"c": {"$ref": "#"}}},
    "a branch": {
        "$ref": "#/$defs/n",
        "$defs": {"n": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
    },
    "an array that may be empty": {"type": "array", "items": {"$ref": "#"}},
    "a list that may end": {
        "$ref": "#/$defs/n",
        "$defs": {
            "n": {
                "type": "object",
                "properties": {"next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
                "required": ["next"],
            }
        },
    },
    "pointers with escapes": {
        "$ref": "#/$defs/a~1b%25",
        "$defs": {"a/b%": {"type": "integer"}},
    },
    "a type beside values": {"type": "string", "enum": ["a", "b"]},
    "a format that nobody knows": {"type": "string", "format": "colour"},
    "words beside a reference": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/n", "description": "an n"}},
        "$defs": {"n": {"type": "integer"}},
    },
}


@pytest.mark.parametrize("schema", ENDLESS_ONLY_BY_CHOICE.values(), ids=ENDLESS_ONLY_BY_CHOICE)
def test_what_can_be_enforced_is_taken(schema):
    assert json.loads(checked_schema(json.dumps(schema))) == schema
