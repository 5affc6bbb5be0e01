"""What a request may ask of its output's form, and what crosses a process boundary."""

import msgspec
import pytest

from runtime.core.errors import RequestError
from runtime.core.sampling.params import SamplingParams
from runtime.core.structured_output.params import MAX_BYTES, ConstraintKind, StructuredOutputs

DEEP = {"type": "array"}
for _ in range(100_000):
    DEEP = {"items": DEEP}

BAD = {
    "nothing": {},
    "nothing but false": {"json_object": False},
    "two": {"regex": "a", "choice": ["a"]},
    "empty regex": {"regex": ""},
    "empty grammar": {"grammar": ""},
    "no choices": {"choice": []},
    "a choice as text": {"choice": "abc"},
    "a choice that is no string": {"choice": ["a", 1]},
    "an empty choice": {"choice": [""]},
    "a regex that is no string": {"regex": 5},
    "a list as schema": {"json": ["a"]},
    "a number as schema": {"json": 4},
    "a set in a schema": {"json": {"enum": {1}}},
    "not a number in a schema": {"json": {"minimum": float("nan")}},
    "a schema nested too deep": {"json": DEEP},
    "a flag that is no flag": {"json_object": "yes"},
    "too large": {"regex": "a" * (MAX_BYTES + 1)},
    "too many choices": {"choice": ["word"] * 50_000},
}


@pytest.mark.parametrize("given", BAD.values(), ids=BAD)
def test_bad_requests_are_refused_in_one_short_line(given):
    with pytest.raises(RequestError) as refused:
        StructuredOutputs(**given)
    assert refused.value.param == "structured_outputs"
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ({"json": {"type": "null"}}, ConstraintKind.JSON, '{"type": "null"}'),
        ({"json": '{"type": "null"}'}, ConstraintKind.JSON, '{"type": "null"}'),
        ({"regex": "a+"}, ConstraintKind.REGEX, "a+"),
        ({"choice": ["a", "b"]}, ConstraintKind.CHOICE, '["a", "b"]'),
        ({"grammar": 'root ::= "a"'}, ConstraintKind.GRAMMAR, 'root ::= "a"'),
        ({"json_object": True}, ConstraintKind.JSON_OBJECT, ""),
        ({"json_object": False, "regex": "a"}, ConstraintKind.REGEX, "a"),
    ],
)
def test_each_kind_has_a_constraint(given, kind, text):
    constraint = StructuredOutputs(**given).constraint
    assert (constraint.kind, constraint.text) == (kind, text)
    assert constraint.any_whitespace
    assert hash(constraint) == hash(StructuredOutputs(**given).constraint)


def test_whitespace_is_part_of_the_constraint():
    strict = StructuredOutputs(json_object=True, disable_any_whitespace=True)
    assert not strict.constraint.any_whitespace


@pytest.mark.parametrize("code", [msgspec.msgpack, msgspec.json])
def test_they_cross_a_process_boundary(code):
    params = SamplingParams(structured_outputs=StructuredOutputs(choice=["a", "é"]), min_tokens=2)
    assert code.decode(code.encode(params), type=SamplingParams) == params
    schema = SamplingParams(structured_outputs=StructuredOutputs(json={"type": "null"}))
    assert code.decode(code.encode(schema), type=SamplingParams) == schema


def test_only_their_own_class_is_taken():
    with pytest.raises(RequestError) as refused:
        SamplingParams(structured_outputs={"regex": "a"})
    assert refused.value.param == "structured_outputs"


def test_the_next_token_depends_on_those_before():
    assert SamplingParams(structured_outputs=StructuredOutputs(regex="a")).reads_output
