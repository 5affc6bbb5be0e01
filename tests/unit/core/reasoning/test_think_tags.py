"""Thoughts apart from content, whole and cut anywhere."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.errors import ConfigError
from runtime.core.reasoning.registry import REASONING_PARSERS, register_reasoning_parser

# Parser: text, thoughts, content.
CASES = [
    ("deepseek_r1", "Hm.\n</think>\n\nYes.", "Hm.", "Yes."),
    ("deepseek_r1", "<think>\nHm.\n</think>\n\nYes. \n", "Hm.", "Yes. \n"),
    ("deepseek_r1", "Hm, no end ", "Hm, no end", ""),
    ("deepseek_r1", "</think>Yes", "", "Yes"),
    ("deepseek_r1", "a < b </thin", "a < b </thin", ""),
    ("deepseek_r1", "a</think>b</think>c", "a", "b</think>c"),
    ("deepseek_r1", "<thi", "<thi", ""),
    ("deepseek_r1", "", "", ""),
    ("qwen3", "<think>\n\n</think>\n\nYes.", "", "Yes."),
    ("qwen3", "<think>\nHm.\n</think>\n\nYes.", "Hm.", "Yes."),
    ("qwen3", "Yes.", "", "Yes."),
    ("qwen3", " \nYes. <think>x</think>", "", " \nYes. <think>x</think>"),
    ("qwen3", "<think>Hm", "Hm", ""),
    ("qwen3", "<thi", "", "<thi"),
    ("qwen3", "<think>", "", ""),
]


def streamed(parser, pieces):
    stream = parser.stream()
    parts = [*map(stream.push, pieces), stream.finish()]
    return "".join(p.reasoning for p in parts), "".join(p.content for p in parts)


@pytest.mark.parametrize(("name", "text", "reasoning", "content"), CASES)
def test_texts(name, text, reasoning, content):
    parser = REASONING_PARSERS.load(name)()
    whole = parser.parse(text)
    assert (whole.reasoning, whole.content) == (reasoning, content)
    assert streamed(parser, text) == (reasoning, content)


PIECES = ["<think>", "</think>", "<", "</", "think>", " ", "\n", "a", "é", "b c"]


@pytest.mark.parametrize("opened", [True, False, None])
@pytest.mark.parametrize("name", REASONING_PARSERS.names())
@settings(max_examples=100, deadline=None)
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=10), where=st.lists(st.integers(0, 60)))
def test_however_a_text_is_cut_it_means_the_same(name, opened, pieces, where):
    parser, text = REASONING_PARSERS.load(name)(opened), "".join(pieces)
    places = [0, *sorted(min(place, len(text)) for place in where), len(text)]
    whole = streamed(parser, [text])
    assert streamed(parser, [text[a:b] for a, b in itertools.pairwise(places)]) == whole
    assert streamed(parser, text) == whole


def test_a_prompt_may_open_the_thoughts():
    assert REASONING_PARSERS.load("qwen3")(opened=True).parse("a</think>b").reasoning == "a"
    assert REASONING_PARSERS.load("deepseek_r1")(opened=False).parse("b").content == "b"


def test_thoughts_are_told_as_they_come():
    stream = REASONING_PARSERS.load("qwen3")().stream()
    told = [stream.push(piece) for piece in ("<think>", "a ", "b", " </thi", "nk>", " c")]
    assert [one.reasoning for one in told] == ["", "a", " b", "", "", ""]
    assert told[-1].content == "c"


def test_names():
    assert REASONING_PARSERS.names() == ["deepseek_r1", "qwen3"]
    with pytest.raises(ConfigError, match="known: deepseek_r1, qwen3"):
        REASONING_PARSERS.load("absent")
    with pytest.raises(ValueError, match="twice"):
        register_reasoning_parser("qwen3", "other:Parser")
