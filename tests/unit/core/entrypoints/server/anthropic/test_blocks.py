"""Answers as content blocks, whole and streamed."""

import json

import pytest

from runtime.core.entrypoints.server.anthropic.blocks import (
    BlockStream,
    call_input,
    content_blocks,
)
from runtime.core.entrypoints.server.chat_output import AnswerReader, whole_message
from runtime.core.reasoning.registry import REASONING_PARSERS
from runtime.core.tool_parsers.registry import TOOL_PARSERS

TEXT = (
    "<think>\nHm.</think>Let me see."
    '<tool_call>{"name": "now", "arguments": {"zone": "UTC"}}</tool_call>'
    '<tool_call>{"name": "date", "arguments": {}}</tool_call>'
)


def reader():
    parsers = REASONING_PARSERS.load("qwen3")(), TOOL_PARSERS.load("hermes")()
    return AnswerReader(*parsers, parallel=True, tell_reasoning=True)


def streamed(text, size):
    """The events of a text that comes in pieces."""
    blocks, one = BlockStream(), reader()
    data = b""
    for start in range(0, len(text), size):
        data += b"".join(blocks.write(one.push(text[start : start + size])))
    data += b"".join(blocks.write(one.finish()))
    data += b"".join(blocks.close())
    events = []
    for item in data.decode().strip().split("\n\n"):
        name, value = item.split("\n")
        event = json.loads(value.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


def put_together(events):
    """Blocks as a client makes them, with the order of the events checked."""
    blocks, opened = [], False
    for event in events:
        match event["type"]:
            case "content_block_start":
                assert not opened
                assert event["index"] == len(blocks)
                blocks.append({**event["content_block"], "json": ""})
                opened = True
            case "content_block_delta":
                assert opened
                assert event["index"] == len(blocks) - 1
                delta, block = event["delta"], blocks[-1]
                match delta["type"]:
                    case "text_delta":
                        block["text"] += delta["text"]
                    case "thinking_delta":
                        block["thinking"] += delta["thinking"]
                    case "input_json_delta":
                        block["json"] += delta["partial_json"]
            case "content_block_stop":
                assert event["index"] == len(blocks) - 1
                opened = False
            case _:
                assert event == {"type": "ping"}
    assert not opened
    for block in blocks:
        text = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(text)
            block.pop("id")
    return blocks


EXPECTED = [
    {"type": "thinking", "thinking": "Hm.", "signature": ""},
    {"type": "text", "text": "Let me see.", "citations": None},
    {"type": "tool_use", "name": "now", "input": {"zone": "UTC"}, "caller": {"type": "direct"}},
    {"type": "tool_use", "name": "date", "input": {}, "caller": {"type": "direct"}},
]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_a_stream_has_the_blocks_of_the_whole(size):
    assert put_together(streamed(TEXT, size)) == EXPECTED


def test_the_whole():
    blocks = [
        block.model_dump(exclude={"id"})
        for block in content_blocks(whole_message(reader(), TEXT, "assistant"))
    ]
    assert blocks == EXPECTED


def test_one_ping_comes_early():
    kinds = [event["type"] for event in streamed("hello there", 3)]
    assert kinds.count("ping") == 1
    assert kinds.index("ping") == 1


def test_nothing_has_no_blocks():
    assert content_blocks(whole_message(reader(), "", "assistant")) == []
    assert list(BlockStream().close()) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        ("{}", {}),
        ("", {}),
        ('{"a": 1, "b": [1, 2', {"a": 1, "b": [1, 2]}),
        ("[1]", {}),
        ("no", {}),
    ],
)
def test_arguments_may_be_cut(arguments, expected):
    assert call_input(arguments) == expected
