"""The built-in backend against re and jsonschema: what it lets through is valid, and it ends."""

import json
import random
import re

import numpy as np
import pytest

from runtime.core.structured_output.interface import GrammarError
from runtime.core.structured_output.params import StructuredOutputs
from runtime.core.structured_output.trial import try_constraint
from runtime.core.structured_output.xgrammar_backend import XGrammarBackend

pytest.importorskip("xgrammar")
jsonschema = pytest.importorskip("jsonschema")


@pytest.fixture(scope="module")
def backend(vocabulary):
    return XGrammarBackend(vocabulary)


@pytest.fixture(scope="module")
def outputs(backend, vocabulary):
    """Random outputs of a constraint: texts of those that ended."""

    def make(count=20, most=400, **given):
        compiled = backend.compile(StructuredOutputs(**given).constraint)
        mask = np.zeros(vocabulary.mask_words, dtype=np.int32)
        texts = []
        for seed in range(count):
            chance, matcher, text = random.Random(seed), compiled.matcher(), b""
            while not matcher.ended and len(text) < most:
                matcher.fill(mask)
                allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
                assert len(allowed)
                assert allowed.max() < len(vocabulary.token_bytes)
                ends = 257 in allowed
                token = 257 if ends and chance.random() < 0.5 else int(chance.choice(allowed))
                assert matcher.accept(token)
                text += vocabulary.token_bytes[token]
            if matcher.ended:
                texts.append(text.decode())
        assert texts
        return texts

    return make


SCHEMAS = [
    {"type": "integer", "minimum": -5, "maximum": 120},
    {"type": "number", "exclusiveMinimum": 0, "maximum": 2.5},
    {"type": "integer", "multipleOf": 7},
    {"type": "boolean"},
    {"type": ["null", "integer"], "maximum": 9, "minimum": 0},
    {"type": "string", "minLength": 2, "maxLength": 5},
    {"type": "string", "pattern": "^[a-c]{2,4}$"},
    {"type": "string", "minLength": 1, "maxLength": 40},
    {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 4},
    {"type": "string", "format": "uuid"},
    {"enum": ["a", 1, None, {"k": [1, 2]}, 'q"uo\\te\n']},
    {"const": {"a": [True, "é"]}},
    {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "maxItems": 3},
    {"type": "array", "prefixItems": [{"type": "null"}, {"type": "boolean"}], "items": False},
    {
        "type": "object",
        "properties": {"a": {"type": "boolean"}, "b": {"enum": [1, 2]}},
        "required": ["b"],
    },
    {
        "type": "object",
        "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}},
        "minProperties": 1,
    },
    {"type": "object", "additionalProperties": {"type": "boolean"}, "maxProperties": 2},
    {"type": "object", "patternProperties": {"^x[0-9]$": {"type": "null"}}},
    {"type": "object", "propertyNames": {"pattern": "^[ab]+$"}, "maxProperties": 1},
    {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"n": {"$ref": "#"}}}]},
    {
        "oneOf": [
            {"type": "object", "properties": {"k": {"const": "a"}}, "required": ["k"]},
            {"type": "object", "properties": {"k": {"const": "b"}}, "required": ["k"]},
        ]
    },
    {"allOf": [{"type": "boolean"}]},
    {"$ref": "#/$defs/t", "$defs": {"t": {"type": "string", "maxLength": 2}}},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
def test_json_that_a_schema_lets_through_is_valid(outputs, schema):
    validator = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.FormatChecker(["uuid"])
    )
    for text in outputs(json=schema):
        validator.validate(json.loads(text))


def test_any_object_is_an_object(outputs):
    assert all(isinstance(json.loads(text), dict) for text in outputs(json_object=True, count=60))


def test_json_can_be_bound_to_one_way_of_writing(outputs):
    schema = {
        "type": "object",
        "properties": {"a": {"enum": [1]}, "b": {"enum": [2]}},
        "required": ["a", "b"],
    }
    assert set(outputs(json=schema, disable_any_whitespace=True)) == {'{"a": 1, "b": 2}'}


@pytest.mark.parametrize("regex", ["[0-9]{3}", "(yes|no)+", "a?b*c", "é[à-ÿ]", r"\d+\.\d{2}", "."])
def test_texts_match_a_regular_expression(outputs, regex):
    assert all(re.fullmatch(regex, text) for text in outputs(regex=regex))


CHOICES = ["yes", "no", 'q"uo\\te', "é世界🙂", "a\nb\t\x01\u2028", "[x]|(y)", "yes!"]


def test_all_choices_and_nothing_else_come(outputs):
    assert set(outputs(choice=CHOICES, count=300)) == set(CHOICES)


@pytest.mark.parametrize(
    ("grammar", "language"),
    [('root ::= "a" ("b" | "c")', {"ab", "ac"}), ('start: "x" y\ny: "1" | "2"', {"x1", "x2"})],
)
def test_grammars_in_both_notations(outputs, grammar, language):
    assert set(outputs(grammar=grammar, count=60)) == language


REFUSED = {
    "a parenthesis": {"regex": "("},
    "a range": {"regex": "[z-a]"},
    "a backreference": {"regex": r"(a)\1"},
    "a lookahead": {"regex": "a(?=b)b"},
    "a word boundary": {"regex": r"a\b"},
    "a grammar that is none": {"grammar": "root ::= ("},
    "no root": {"grammar": 'other ::= "a"'},
    "an undefined rule": {"grammar": "root ::= other"},
    "lark that is none": {"grammar": 'start: "a" ('},
    "a rule of itself": {"grammar": "root ::= root"},
    "lengths that contradict": {"json": {"type": "string", "minLength": 3, "maxLength": 1}},
    "limits that contradict": {"json": {"type": "integer", "minimum": 3, "maximum": 1}},
    "a lookahead in a pattern": {"json": {"type": "string", "pattern": "^a(?=b)"}},
    "no value": {"json": {"enum": []}},
    "false": {"json": "false"},
}


@pytest.mark.parametrize("given", REFUSED.values(), ids=REFUSED)
def test_what_does_not_compile_is_refused_in_words(backend, capfd, given):
    constraint = StructuredOutputs(**given).constraint
    reason = try_constraint(backend, constraint)
    # The trial's process takes a warning for a refusal.
    assert reason or "Warning" in capfd.readouterr().err
    assert "/project/" not in (reason or "")


def test_a_refusal_is_an_error_of_its_own_kind(backend):
    with pytest.raises(GrammarError, match="parenthesis is not closed"):
        backend.compile(StructuredOutputs(regex="(").constraint)


def test_what_the_vocabulary_cannot_spell_is_refused(vocabulary):
    letters = type(vocabulary)((b"a", b"b", b""), 3, (2,))
    reason = try_constraint(XGrammarBackend(letters), StructuredOutputs(regex="[0-9]").constraint)
    assert "no token" in reason


def test_wrong_tokens_are_not_accepted(backend):
    compiled = backend.compile(StructuredOutputs(choice=["ab"]).constraint)
    assert not compiled.matcher().accept(ord("b"))
    assert not compiled.matcher().accept(257)
    assert not compiled.matcher().accept(256)
    assert compiled.memory_bytes > 0
    matcher = compiled.matcher()
    assert [matcher.accept(token) for token in (ord("a"), ord("b"), 257)] == [True] * 3
    assert matcher.ended


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "xgrammar and jsonschema" in XGrammarBackend.missing()
    assert "pip install" in XGrammarBackend.missing()
