"""Anthropic's API, through its own Python client and without it."""

import json

import pytest

anthropic = pytest.importorskip("anthropic")

MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"
USER = [{"role": "user", "content": "hi"}]
BODY = {"model": "tiny", "max_tokens": 8, "messages": USER}
GREEDY = {**BODY, "temperature": 0}
TOOLS = [
    {"name": "now", "input_schema": {"type": "object", "additionalProperties": False}},
    {
        "name": "rain",
        "description": "Will it rain?",
        "input_schema": {
            "type": "object",
            "properties": {"in": {"enum": ["Rome", "Oslo"]}},
            "required": ["in"],
            "additionalProperties": False,
        },
    },
]
ONE_CALL = {
    "type": "object",
    "properties": {
        "name": {"const": "rain"},
        "parameters": TOOLS[1]["input_schema"],
    },
    "required": ["name", "parameters"],
    "additionalProperties": False,
}
AUTO = {"enable_auto_tool_choice": True, "tool_call_parser": "llama3_json"}


@pytest.fixture
def sdk(live, client):
    """The SDK's client of a server with these arguments: ``sdk(**args)``."""

    def make(*, key="any", **args):
        url = str(live.client(**args).base_url)
        return anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)

    return make


def events_of(client, body):
    """The events of a stream, each with the name of its type."""
    with client.stream("POST", MESSAGES, json={**body, "stream": True}) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        text = answer.read().decode()
    events = []
    for item in text.strip().split("\n\n"):
        name, data = item.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


def chat_text(client, **fields):
    """What chat completions answer to the same."""
    body = {"messages": USER, "max_tokens": 8, "temperature": 0, **fields}
    return client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]


class TestMessages:
    def test_the_text_is_that_of_chat_completions(self, sdk, client):
        message = ask(sdk())
        assert [block.text for block in message.content] == [chat_text(client)]
        assert (message.type, message.role, message.model) == ("message", "assistant", "tiny")
        assert message.id.startswith("msg_")
        assert message.stop_reason == "max_tokens"
        assert message.stop_sequence is None
        assert message.usage.output_tokens == 8

    def test_a_stream_is_the_whole(self, sdk):
        whole = ask(sdk())
        with sdk().messages.stream(**BODY, extra_body={"temperature": 0}) as stream:
            text = "".join(stream.text_stream)
            message = stream.get_final_message()
        assert text == whole.content[0].text
        assert message.content[0].text == text
        assert message.stop_reason == whole.stop_reason
        assert message.usage.output_tokens == whole.usage.output_tokens

    def test_the_system_prompt_is_read(self, sdk, client):
        system = {"role": "system", "content": "be brief"}
        for given in ("be brief", [{"type": "text", "text": "be brief"}]):
            message = ask(sdk(), system=given)
            assert message.content[0].text == chat_text(client, messages=[system, *USER])

    def test_an_answer_that_was_begun_is_gone_on_with(self, sdk, client):
        messages = [*USER, {"role": "assistant", "content": "yes"}]
        message = ask(sdk(), messages=messages)
        expected = chat_text(client, messages=messages, continue_final_message=True)
        assert message.content[0].text == expected

    def test_the_prefix_cache_is_told(self, sdk):
        messages = [{"role": "user", "content": "x" * 70}]
        first, second = (ask(sdk(), messages=messages).usage for _ in range(2))
        assert second.cache_read_input_tokens >= 64
        total = second.input_tokens + second.cache_read_input_tokens
        assert first.input_tokens + first.cache_read_input_tokens == total
        counted = sdk().messages.count_tokens(model="tiny", messages=messages)
        assert counted.input_tokens == total

    def test_an_answer_may_fill_the_context(self, sdk):
        # Random models seldom end by themselves; this one may.
        messages = [{"role": "user", "content": "y" * 200}]
        message = ask(sdk(), messages=messages, max_tokens=5000)
        assert message.stop_reason in ("model_context_window_exceeded", "end_turn")

    def test_metadata_is_passed_over(self, sdk):
        sdk().messages.create(**BODY, metadata={"user_id": "a"}, service_tier="auto")

    def test_no_tokens_are_no_blocks(self, sdk):
        message = sdk().messages.create(**{**BODY, "max_tokens": 0})
        assert (message.content, message.stop_reason) == ([], "max_tokens")


class TestStopSequences:
    def sequence(self, client):
        """Letters that the answer has, but does not begin with."""
        text = chat_text(client)
        return next(text[i : i + 2] for i in range(1, len(text) - 1) if text.index(text[i : i + 2]))

    def test_one_that_came(self, sdk, client):
        sequence = self.sequence(client)
        message = ask(sdk(), stop_sequences=["never", sequence])
        assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", sequence)
        assert sequence not in message.content[0].text

    @pytest.mark.parametrize("comes", [True, False])
    def test_streams_tell_it_also_where_none_came(self, client, comes):
        sequence = self.sequence(client) if comes else "never"
        (delta,) = (
            event["delta"]
            for event in events_of(client, {**GREEDY, "stop_sequences": [sequence]})
            if event["type"] == "message_delta"
        )
        assert delta == {
            "stop_reason": "stop_sequence" if comes else "max_tokens",
            "stop_sequence": sequence if comes else None,
            "stop_details": None,
            "container": None,
        }


def test_the_events_of_a_stream_come_in_order(client):
    events = events_of(client, GREEDY)
    kinds = [event["type"] for event in events]
    assert kinds[:3] == ["message_start", "content_block_start", "ping"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[3:-3]) == {"content_block_delta"}
    start, end = events[0]["message"], events[-2]
    assert start["content"] == []
    assert start["stop_reason"] is None
    assert end["usage"]["output_tokens"] == 8
    assert end["usage"]["cache_read_input_tokens"] == start["usage"]["cache_read_input_tokens"]


class TestTools:
    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize("name", ["now", "rain"])
    def test_a_certain_one(self, sdk, name, stream):
        choice = {"type": "tool", "name": name}
        message = ask(sdk(), stream, tools=TOOLS, tool_choice=choice, max_tokens=60)
        (call,) = message.content
        assert (call.type, call.name) == ("tool_use", name)
        assert set(call.input) == ({"in"} if name == "rain" else set())
        assert message.stop_reason == "tool_use"

    @pytest.mark.parametrize("stream", [False, True])
    def test_any_but_one_call(self, sdk, stream):
        choice = {"type": "any", "disable_parallel_tool_use": True}
        message = ask(sdk(), stream, tools=TOOLS, tool_choice=choice, max_tokens=100)
        (call,) = message.content
        assert call.name in ("now", "rain")
        assert message.stop_reason == "tool_use"

    @pytest.mark.parametrize("stream", [False, True])
    def test_as_the_model_likes(self, sdk, stream):
        config = {"format": {"type": "json_schema", "schema": ONE_CALL}}
        message = ask(sdk(**AUTO), stream, tools=TOOLS, output_config=config, max_tokens=200)
        (call,) = message.content
        assert (call.type, call.name) == ("tool_use", "rain")
        assert call.input["in"] in ("Rome", "Oslo")
        assert message.stop_reason == "tool_use"

    def test_none(self, sdk, client):
        message = ask(sdk(), tools=TOOLS, tool_choice={"type": "none"})
        assert message.content[0].text == chat_text(client)

    def test_the_conversation_goes_on_with_the_result(self, sdk):
        choice = {"type": "tool", "name": "now"}
        first = ask(sdk(), tools=TOOLS, tool_choice=choice, max_tokens=60)
        result = {"type": "tool_result", "tool_use_id": first.content[0].id, "content": "12:00"}
        messages = [
            *USER,
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": [result]},
        ]
        answer = ask(sdk(**AUTO), messages=messages, tools=TOOLS)
        assert answer.role == "assistant"

    def test_without_a_parser_the_model_cannot_choose(self, sdk):
        with pytest.raises(anthropic.BadRequestError, match="--tool-call-parser"):
            sdk().messages.create(**BODY, tools=TOOLS)


def ask(client, stream=False, **fields):
    # Not every release of the SDK has an argument for the temperature.
    body = {**BODY, "extra_body": {"temperature": 0}, **fields}
    if not stream:
        return client.messages.create(**body)
    with client.messages.stream(**body) as events:
        return events.get_final_message()


@pytest.mark.parametrize("stream", [False, True])
def test_thoughts_are_blocks_of_their_own(sdk, stream):
    client = sdk(reasoning_parser="deepseek_r1")
    (block,) = ask(client, stream).content
    assert block.type == "thinking"
    assert block.thinking
    assert ask(client, stream, thinking={"type": "adaptive", "display": "omitted"}).content == []


@pytest.mark.parametrize("stream", [False, True])
def test_the_text_has_the_form_that_is_asked_for(sdk, stream):
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
    schema["additionalProperties"] = False
    config = {"format": {"type": "json_schema", "schema": schema}}
    message = ask(sdk(), stream, output_config=config, max_tokens=100)
    assert set(json.loads(message.content[0].text)) == {"a"}


def test_tokens_are_counted(sdk, client):
    count = sdk().messages.count_tokens
    plain = count(model="tiny", messages=USER).input_tokens
    tokens = client.post("/tokenize", json={"messages": USER}).json()["count"]
    assert plain == tokens
    assert count(model="tiny", messages=USER, system="s").input_tokens > plain
    assert count(model="tiny", messages=USER, tools=TOOLS).input_tokens > plain
    choice = {"type": "none"}
    told = count(model="tiny", messages=USER, tools=TOOLS, tool_choice=choice)
    assert told.input_tokens == plain


class TestErrors:
    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize(
        ("fields", "kind", "said"),
        [
            ({"model": "other"}, "NotFoundError", "other"),
            ({"messages": []}, "BadRequestError", "messages"),
            ({"extra_body": {"temperature": -1}}, "BadRequestError", "temperature"),
            ({"max_tokens": -1}, "BadRequestError", "max_tokens"),
            ({"tool_choice": {"type": "any"}}, "BadRequestError", "tool_choice"),
            ({"messages": [{"role": "robot", "content": "x"}]}, "BadRequestError", "role"),
            ({"messages": [{"role": "user", "content": "x" * 5000}]}, "BadRequestError", "256"),
            ({"output_config": {"format": {"type": "json_schema", "schema": {"type": "x"}}}},
             "BadRequestError", "type"),
        ],
    )  # fmt: skip
    def test_are_the_clients_own_classes(self, sdk, fields, kind, said, stream):
        with pytest.raises(getattr(anthropic, kind), match=said) as caught:
            sdk().messages.create(**{**BODY, **fields, "stream": stream})
        assert set(caught.value.body) == {"type", "error"}

    @pytest.mark.parametrize(
        "block",
        [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}},
            {"type": "document", "source": {"type": "text"}},
            {"type": "x" * 100_000},
        ],
    )
    def test_of_blocks_that_are_not_taken(self, client, block):
        messages = [*USER, {"role": "assistant", "content": "x"}, {"role": "user"}]
        messages[-1]["content"] = [{"type": "text", "text": "a"}, block]
        error = refused(client.post(MESSAGES, json={**BODY, "messages": messages}))
        assert error["message"].startswith("messages[2].content: block 1 is of type ")

    @pytest.mark.parametrize("path", [MESSAGES, COUNT])
    def test_before_any_field_is_read(self, client, path):
        headers = {"content-type": "application/json"}
        for body in ("", "{", "[]", "null", "42", "[" * 100_000, '{"a": NaN}'):
            refused(client.post(path, content=body, headers=headers))
        refused(client.post(path, content="{}", headers={"content-type": "text/plain"}), 415)
        refused(client.post(path, json={}))
        refused(client.get(path), 405)
        refused(client.post(f"{path}/none", json={}), 404, "not_found_error")

    def test_of_keys(self, sdk):
        keys = {"api_key": ("secret", "other")}
        assert sdk(key="other", **keys).messages.create(**BODY).content
        with pytest.raises(anthropic.AuthenticationError) as caught:
            sdk(key="wrong", **keys).messages.create(**BODY)
        assert caught.value.body["error"]["type"] == "authentication_error"

    def test_of_size(self, live):
        small = live.client(max_request_bytes=200)
        body = {**BODY, "system": "x" * 300}
        refused(small.post(MESSAGES, json=body), 413, "request_too_large")

    def test_elsewhere_are_as_they_were(self, client):
        assert "code" in client.post("/v1/chat/completions", json={}).json()["error"]

    def test_null_is_absent(self, client):
        absent = dict.fromkeys(
            ("system", "tools", "tool_choice", "thinking", "output_config", "stop_sequences",
             "temperature", "top_p", "top_k", "stream", "metadata")
        )  # fmt: skip
        assert client.post(MESSAGES, json={**BODY, **absent}).status_code == 200


def refused(answer, status=400, kind="invalid_request_error"):
    assert answer.status_code == status, answer.text
    assert len(answer.content) < 65536
    value = answer.json()
    assert set(value) == {"type", "error"}
    assert value["type"] == "error"
    assert set(value["error"]) == {"type", "message"}
    assert value["error"]["type"] == kind
    assert value["error"]["message"]
    return value["error"]


def test_a_client_that_goes_frees_its_request(live, client):
    body = {**BODY, "max_tokens": 200, "stream": True, "stop_sequences": None}
    with client.stream("POST", MESSAGES, json=body) as answer:
        next(answer.iter_lines())
    assert live.idle()
