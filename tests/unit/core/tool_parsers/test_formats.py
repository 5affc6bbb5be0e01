"""Each format: what its texts mean, whole and cut anywhere; nothing raises."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.tool_parsers.registry import TOOL_PARSERS

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {
                "type": "object",
                "properties": {
                    "n": {"type": "integer"},
                    "x": {"type": "number"},
                    "on": {"type": "boolean"},
                    "s": {"type": "string"},
                    "o": {"type": "object"},
                    "l": {"anyOf": [{"type": "array"}, {"type": "null"}]},
                },
            },
        },
    },
    {"type": "function", "function": {"name": "g"}},
]


def hermes(name, arguments="{}"):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def coder(name, *parameters):
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters)
    return f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>"


# Format: text, content, calls as (name, arguments).
CASES = [
    ("hermes", "no call", "no call", []),
    ("hermes", "", "", []),
    ("hermes", " \n", " \n", []),
    ("hermes", hermes("f"), "", [("f", {})]),
    ("hermes", "Well.\n" + hermes("f", '{"a": "é"}'), "Well.", [("f", {"a": "é"})]),
    ("hermes", hermes("f") + "\n" + hermes("g", '{"b": [1]}'), "", [("f", {}), ("g", {"b": [1]})]),
    ("hermes", hermes("f") + "\n done \n", "done \n", [("f", {})]),
    ("hermes", hermes("f", '{"a": "</tool_call>"}'), "", [("f", {"a": "</tool_call>"})]),
    ("hermes", '<tool_call>{"name": "f"}</tool_call>', "", [("f", {})]),
    ("hermes", '<tool_call>{"name": "f", "arguments": null}', "", [("f", {})]),
    ("hermes", hermes("f", '"{\\"a\\": 1}"'), "", [("f", {"a": 1})]),
    ("hermes", "<tool_call>oops</tool_call>", "<tool_call>oops</tool_call>", []),
    ("hermes", "a <tool_call></tool_call>", "a <tool_call></tool_call>", []),
    ("hermes", hermes("f", "[1]"), hermes("f", "[1]"), []),
    ("hermes", hermes("f", '{"a": 1e999}'), hermes("f", '{"a": 1e999}'), []),
    ("hermes", '<tool_call>{"name": "f", "argu', '<tool_call>{"name": "f", "argu', []),
    ("hermes", "1 < 2 <tool", "1 < 2 <tool", []),
    ("llama3_json", '{"name": "f", "parameters": {"a": 1}}', "", [("f", {"a": 1})]),
    ("llama3_json", '\n{"name": "f"} ; {"name": "g"}', "", [("f", {}), ("g", {})]),
    ("llama3_json", '{"name": "f"};', "", [("f", {})]),
    ("llama3_json", '<|python_tag|>{"name": "f", "parameters": {}}', "", [("f", {})]),
    ("llama3_json", 'So: <|python_tag|>{"name": "f"}', "So:", [("f", {})]),
    ("llama3_json", "<|python_tag|>print({1})", "<|python_tag|>print({1})", []),
    ("llama3_json", '{"answer": 5}', '{"answer": 5}', []),
    ("llama3_json", 'A {"name": "f"}', 'A {"name": "f"}', []),
    ("llama3_json", '{"name": "f", "para', '{"name": "f", "para', []),
    ("llama3_json", "  text", "  text", []),
    ("mistral", '[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}]', "", [("f", {"a": 1})]),
    (
        "mistral",
        'Hm [TOOL_CALLS] [{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}]',
        "Hm",
        [("f", {}), ("g", {})],
    ),
    ("mistral", '[TOOL_CALLS]f{"a": "]"}[TOOL_CALLS]g{}', "", [("f", {"a": "]"}), ("g", {})]),
    ("mistral", '[TOOL_CALLS]f[CALL_ID]abc123def[ARGS]{"a": 1}', "", [("f", {"a": 1})]),
    ("mistral", "[TOOL_CALLS][1, 2]", "[TOOL_CALLS][1, 2]", []),
    ("mistral", "[TOOL_CALLS]two words{}", "[TOOL_CALLS]two words{}", []),
    ("mistral", "[TOOL_CALLS]", "[TOOL_CALLS]", []),
    ("mistral", "[TOOL", "[TOOL", []),
    ("qwen3_coder", coder("g"), "", [("g", {})]),
    ("qwen3_coder", "Ok.\n" + coder("f", ("n", "5")), "Ok.", [("f", {"n": 5})]),
    (
        "qwen3_coder",
        coder("f", ("n", "5.5"), ("x", "5"), ("on", "True"), ("s", "5"), ("l", "null")),
        "",
        [("f", {"n": "5.5", "x": 5, "on": True, "s": "5", "l": None})],
    ),
    ("qwen3_coder", coder("f", ("o", '{"a": [1]}')), "", [("f", {"o": {"a": [1]}})]),
    ("qwen3_coder", coder("f", ("s", "a\n\nb\n")), "", [("f", {"s": "a\n\nb\n"})]),
    ("qwen3_coder", coder("f", ("s", "</tool_call>")), "", [("f", {"s": "</tool_call>"})]),
    ("qwen3_coder", coder("h", ("q", "1")), "", [("h", {"q": "1"})]),
    ("qwen3_coder", "<function=g>\n</function>", "", [("g", {})]),
    ("qwen3_coder", coder("f") + "\n" + coder("g"), "", [("f", {}), ("g", {})]),
    ("qwen3_coder", "<tool_call>\n<function=g>\n</function>", "", [("g", {})]),
    ("qwen3_coder", "<tool_call>\nhm\n</tool_call> x", "<tool_call>\nhm\n</tool_call> x", []),
    ("qwen3_coder", "<tool_call><function=f><para", "<tool_call><function=f><para", []),
]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}: {case[1]}"[:70])
def case(request):
    return request.param


def meaning(output):
    return output.content, [(call.name, json.loads(call.arguments)) for call in output.calls]


def parser(name):
    return TOOL_PARSERS.load(name)(TOOLS)


def test_a_whole_text(case):
    name, text, content, calls = case
    assert meaning(parser(name).parse(text)) == (content, calls)


def test_a_text_that_comes_by_characters(case, streamed):
    name, text, content, calls = case
    output = streamed(parser(name), text)
    assert meaning(output) == (content, calls)
    assert [call.id for call in output.calls] == [f"id{index}" for index in range(len(calls))]
    assert all(call.arguments == "{}" for call in output.calls if not json.loads(call.arguments))


PIECES = [
    *("<tool_call>", "</tool_call>", "<tool", "<function=f>", "</function>", "<parameter=n>"),
    *("</parameter>", "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>", '{"name": "f"}', "f{}", "[", "]"),
    *('{"name": "g", "arguments": {"a": "\\"}"}}', "{", "}", '"', "\\", ";", ",", " ", "\n", "é"),
    *("text", hermes("f"), coder("f", ("n", "5")), '[{"name": "f", "arguments": {}}]'),
]


@pytest.mark.parametrize("name", TOOL_PARSERS.names())
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_however_a_text_is_cut_it_means_the_same(streamed, cut, name, data):
    text = "".join(data.draw(st.lists(st.sampled_from(PIECES), max_size=9)))
    whole = streamed(parser(name), [text])
    assert streamed(parser(name), data.draw(cut(text))) == whole
    assert streamed(parser(name), text) == whole
    if not whole.calls:
        assert whole.content == text
    for call in whole.calls:
        assert isinstance(json.loads(call.arguments), dict)


@pytest.mark.parametrize("name", TOOL_PARSERS.names())
@settings(max_examples=100, deadline=None)
@given(text=st.text())
def test_any_other_text_is_content(name, text):
    assert meaning(parser(name).parse(text)) == (text, [])


DEEP = "[" * 50_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", f'<tool_call>{{"name": "f", "arguments": {{"a": {DEEP}'),
        ("hermes", hermes("f", '{"a": ' + "9" * 5000 + "}")),
        ("llama3_json", '{"name": "f", "parameters": {"a": ' + DEEP + "]" * 50_000 + "}}"),
        ("mistral", "[TOOL_CALLS]" + DEEP + "]" * 50_000),
        ("qwen3_coder", coder("f", ("o", DEEP))),
        ("qwen3_coder", "<tool_call><function=f>" + "<parameter=a>" * 20_000 + "</function>"),
    ],
    ids=range(6),
)
def test_hostile_texts_do_no_harm(name, text, streamed):
    whole = streamed(parser(name), [text])
    assert whole.content == text or whole.calls
    assert streamed(parser(name), [text[i : i + 997] for i in range(0, len(text), 997)]) == whole


def test_halves_of_characters_become_json_that_utf8_holds():
    (call,) = parser("hermes").parse(hermes("f", '{"a": "\\ud800"}')).calls
    assert call.arguments.encode() == b'{"a": "\\ud800"}'


def test_ids_are_the_models_own():
    (call,) = parser("mistral").parse("[TOOL_CALLS]f{}").calls
    assert len(call.id) == 9
    assert call.id.isalnum()
    first, second = parser("hermes").parse(hermes("f") + hermes("f")).calls
    assert first.id.startswith("call_")
    assert first.id != second.id


@pytest.mark.parametrize("tools", [[{"function": 5}], [5], [{"name": "f", "parameters": 7}], [{}]])
def test_tools_of_another_shape_are_passed_over(tools):
    (call,) = TOOL_PARSERS.load("qwen3_coder")(tools).parse(coder("f", ("n", "5"))).calls
    assert json.loads(call.arguments) == {"n": "5"}
