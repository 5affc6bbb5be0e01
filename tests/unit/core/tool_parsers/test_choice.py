"""tool_choice by grammar: what is let through is calls of the tools, and is parsed as such."""

import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.errors import RequestError
from runtime.core.structured_output.interface import Vocabulary
from runtime.core.tool_parsers.choice import (
    NamedToolParser,
    RequiredToolParser,
    named_call_arguments,
    required_calls,
)

jsonschema = pytest.importorskip("jsonschema")


def tool(name, parameters=None):
    function = {"name": name} if parameters is None else {"name": name, "parameters": parameters}
    return {"type": "function", "function": function}


CITY = {
    "type": "object",
    "properties": {"city": {"$ref": "#/$defs/city"}, "on": {"type": "boolean"}},
    "required": ["city"],
    "$defs": {"city": {"enum": ["Rome", "#/$defs/x"]}},
}
TREE = {
    "type": "object",
    "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    "required": ["next"],
}
TOOLS = [tool("weather", CITY), tool("now"), tool("tree", TREE), tool("empty", {})]
SCHEMAS = {
    "weather": CITY,
    "now": {"maxProperties": 0},
    "tree": TREE,
    "empty": {"maxProperties": 0},
}


@pytest.fixture(scope="module")
def texts():
    """Random texts that a constraint lets through."""
    pytest.importorskip("xgrammar")
    from runtime.core.structured_output.xgrammar_backend import XGrammarBackend

    backend = XGrammarBackend(Vocabulary((*(bytes([b]) for b in range(256)), b""), 257, (256,)))

    def make(wanted, count=25):
        compiled, found = backend.compile(wanted.constraint), []
        mask = np.zeros(backend.vocabulary.mask_words, dtype=np.int32)
        for seed in range(count):
            chance, matcher, text = random.Random(seed), compiled.matcher(), b""
            while not matcher.ended and len(text) < 600:
                matcher.fill(mask)
                allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
                token = int(chance.choice(allowed))
                assert matcher.accept(token)
                text += bytes([token]) if token < 256 else b""
            if matcher.ended:
                found.append(text.decode())
        assert found
        return found

    return make


def test_required_calls_are_valid_and_parsed(texts):
    seen = set()
    for text in texts(required_calls(TOOLS)):
        output = RequiredToolParser(TOOLS).parse(text)
        assert output.content == ""
        assert len(output.calls) == len(json.loads(text)) >= 1
        for call in output.calls:
            seen.add(call.name)
            jsonschema.validate(json.loads(call.arguments), SCHEMAS[call.name])
    assert seen == set(SCHEMAS)


def test_one_call_if_they_may_not_be_parallel(texts):
    for text in texts(required_calls(TOOLS, parallel=False)):
        assert len(RequiredToolParser().parse(text).calls) == 1


@pytest.mark.parametrize("name", SCHEMAS)
def test_named_calls_are_valid_and_parsed(texts, name):
    for text in texts(named_call_arguments(TOOLS, name), count=8):
        (call,) = NamedToolParser(name).parse(text).calls
        assert call.name == name
        jsonschema.validate(json.loads(call.arguments), SCHEMAS[name])


def test_references_follow_their_schema_and_values_stay():
    schema = json.loads(required_calls(TOOLS).json)
    moved = schema["$defs"]["tool0"]
    assert moved["properties"]["city"]["$ref"] == "#/$defs/tool0/$defs/city"
    assert moved["$defs"]["city"]["enum"] == ["Rome", "#/$defs/x"]
    assert schema["$defs"]["tool2"]["properties"]["next"]["anyOf"][0]["$ref"] == "#/$defs/tool2"


def test_what_cannot_be_called_is_refused():
    with pytest.raises(RequestError) as refused:
        required_calls([])
    assert refused.value.param == "tools"
    with pytest.raises(RequestError) as refused:
        named_call_arguments(TOOLS, "absent")
    assert refused.value.param == "tool_choice"


REQUIRED = [
    '[{"name": "f", "arguments": {"a": "]"}}, {"name": "g", "arguments": {}}]',
    '[{"name": "f", "arguments": {}}]\n',
    '[{"name": "f", "arguments": {}}, {"name": "g", "ar',
    '[{"name": "f", "argu',
    "[",
    "",
]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_however_required_calls_are_cut(streamed, cut, data):
    text = data.draw(st.sampled_from(REQUIRED))
    whole = streamed(RequiredToolParser(), [text])
    assert streamed(RequiredToolParser(), data.draw(cut(text))) == whole
    assert [call.name for call in whole.calls] == ["f", "g"][: text.count("}}")]
    if text.rstrip().endswith("]") or not text:
        assert whole.content == ""


@settings(max_examples=100, deadline=None)
@given(
    data=st.data(), text=st.sampled_from(['{"a": [1,  2]}', "{}", ' {"a": 1}\n', '{"a": "x', " "])
)
def test_however_a_named_call_is_cut(streamed, cut, data, text):
    whole = streamed(NamedToolParser("f"), [text])
    assert streamed(NamedToolParser("f"), data.draw(cut(text))) == whole
    assert [(call.name, call.arguments) for call in whole.calls] == (
        [("f", text.strip())] if text.strip() else []
    )
    assert whole.content == ""
