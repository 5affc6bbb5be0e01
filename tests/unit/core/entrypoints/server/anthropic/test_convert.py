"""Anthropic's requests as chat completions have them."""

import json

import pytest

from runtime.core.entrypoints.server.anthropic.convert import chat_request
from runtime.core.entrypoints.server.anthropic.protocol import MessagesRequest
from runtime.core.errors import RequestError

TOOL = {"name": "now", "description": "The time", "input_schema": {"type": "object"}}


def convert(messages, **fields):
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    body = {"model": "m", "max_tokens": 5, "messages": messages, **fields}
    return chat_request(MessagesRequest.model_validate(body))


def turns(*messages, **fields):
    """The messages of the conversion, without what is absent."""
    chat = convert([{"role": role, "content": content} for role, content in messages], **fields)
    return [message.model_dump(exclude_none=True) for message in chat.messages]


def text(value):
    return {"type": "text", "text": value}


def use(call_id, name="now", **given):
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def result(call_id, **fields):
    return {"type": "tool_result", "tool_use_id": call_id, **fields}


def test_a_text_and_its_block_are_the_same():
    expected = [{"role": "user", "content": "hi"}]
    assert turns(("user", "hi")) == turns(("user", [text("hi")])) == expected


@pytest.mark.parametrize("system", ["Be brief.", [{**text("Be brief."), "cache_control": {}}]])
def test_the_system_prompt_comes_first(system):
    first, *_ = turns(("user", "hi"), system=system)
    assert first == {"role": "system", "content": "Be brief."}


def test_consecutive_messages_of_one_role_are_one():
    got = turns(("user", "a"), ("user", [text("b"), text("c")]), ("assistant", "d"), ("user", "e"))
    assert got == [
        {"role": "user", "content": [text("a"), text("b"), text("c")]},
        {"role": "assistant", "content": "d"},
        {"role": "user", "content": "e"},
    ]


def test_calls_and_results():
    got = turns(
        ("user", "time?"),
        ("assistant", [text("Let me see."), use("a", zone="UTC"), use("b", name="date")]),
        (
            "user",
            [
                text("And then?"),
                result("a", content="12:00"),
                result("b", content=[text("1"), text("2")], is_error=True),
            ],
        ),
    )
    call_a = {"name": "now", "arguments": {"zone": "UTC"}}
    call_b = {"name": "date", "arguments": {}}
    assert got[1:] == [
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": call_a},
                {"id": "b", "type": "function", "function": call_b},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "name": "now", "content": "12:00"},
        {
            "role": "tool",
            "tool_call_id": "b",
            "name": "date",
            "content": [text("1"), text("2")],
            "is_error": True,
        },
        {"role": "user", "content": "And then?"},
    ]


def test_a_result_may_be_empty_and_its_call_forgotten():
    got = turns(("user", [result("gone")]))
    assert got == [{"role": "tool", "tool_call_id": "gone", "content": ""}]


def test_thoughts_of_earlier_turns():
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "x"},
        {"type": "redacted_thinking", "data": "x"},
        text("Yes."),
    ]
    got = turns(("user", "a"), ("assistant", blocks), ("user", "b"))
    assert got[1] == {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}


@pytest.mark.parametrize(
    ("role", "block"),
    [
        ("user", use("a")),
        ("user", {"type": "thinking", "thinking": "x"}),
        ("assistant", result("a")),
        ("system", use("a")),
    ],
)
def test_blocks_belong_to_roles(role, block):
    with pytest.raises(RequestError, match=r"messages\[1\]\.content\[1\].*" + block["type"]):
        turns(("user", "a"), (role, [text("b"), block]))


def test_an_answer_that_was_begun_is_gone_on_with():
    begun = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert convert(begun).continue_final_message
    assert not convert("a").continue_final_message


def test_a_call_without_a_result_is_no_end():
    with pytest.raises(RequestError, match="tool_result"):
        turns(("user", "a"), ("assistant", [use("a")]))


@pytest.mark.parametrize(
    ("choice", "expected", "parallel"),
    [
        (None, None, True),
        ({"type": "auto"}, "auto", True),
        ({"type": "auto", "disable_parallel_tool_use": True}, "auto", False),
        ({"type": "any"}, "required", True),
        ({"type": "any", "disable_parallel_tool_use": True}, "required", False),
        ({"type": "none"}, "none", True),
        ({"type": "tool", "name": "now"}, "now", True),
    ],
)
def test_tool_choices(choice, expected, parallel):
    chat = convert("hi", tools=[TOOL], tool_choice=choice)
    chosen = chat.tool_choice
    assert (chosen.function.name if expected == "now" else chosen) == expected
    assert chat.parallel_tool_calls is parallel
    assert chat.tools[0].model_dump(exclude_none=True) == {
        "type": "function",
        "function": {
            "name": "now",
            "description": "The time",
            "parameters": {"type": "object"},
        },
    }


def test_a_certain_tool_needs_its_name():
    with pytest.raises(RequestError, match="name"):
        convert("hi", tools=[TOOL], tool_choice={"type": "tool"})


def test_sampling():
    chat = convert(
        "hi", stop_sequences=["a"], temperature=0.5, top_p=0.25, top_k=3, stream=True, metadata={}
    )
    assert (chat.stop, chat.temperature, chat.top_p, chat.top_k) == (["a"], 0.5, 0.25, 3)
    assert (chat.max_tokens, chat.stream) == (5, True)


@pytest.mark.parametrize(
    ("thinking", "variables", "told"),
    [
        (None, None, True),
        ({"type": "enabled", "budget_tokens": 1024}, {"enable_thinking": True}, True),
        ({"type": "adaptive", "display": "omitted"}, {"enable_thinking": True}, False),
        ({"type": "disabled"}, {"enable_thinking": False}, True),
    ],
)
def test_thinking(thinking, variables, told):
    chat = convert("hi", thinking=thinking)
    assert chat.chat_template_kwargs == variables
    assert chat.include_reasoning is told


def test_the_form_of_the_output():
    schema = {"type": "object", "title": "a"}
    config = {"effort": "low", "format": {"type": "json_schema", "schema": schema}}
    chat = convert("hi", output_config=config)
    assert chat.reasoning_effort == "low"
    assert json.loads(chat.form().json) == schema
