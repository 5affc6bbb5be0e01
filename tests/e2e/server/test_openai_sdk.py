"""The OpenAI API through its own Python client, whose types check what it is given."""

import json

import pytest

openai = pytest.importorskip("openai")
pydantic = pytest.importorskip("pydantic")

USER = [{"role": "user", "content": "hi"}]
CHAT = {"model": "tiny", "messages": USER, "max_tokens": 8, "temperature": 0}
PROMPT = {"model": "tiny", "prompt": "once", "max_tokens": 8, "temperature": 0}
RAIN = {
    "type": "object",
    "properties": {"in": {"enum": ["Rome", "Oslo"]}},
    "required": ["in"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": "now"}},
    {"type": "function", "function": {"name": "rain", "parameters": RAIN, "strict": True}},
]
CALLS = (
    "Let me see."
    '<tool_call>{"name": "rain", "arguments": {"in": "Rome"}}</tool_call>'
    '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
)
AUTO = {"enable_auto_tool_choice": True, "tool_call_parser": "hermes"}


class Umbrella(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    needed: bool
    size: int = pydantic.Field(ge=1, le=9)


@pytest.fixture
def sdk(live, client):
    """The SDK's client of a server with these arguments: ``sdk(**args)``."""

    def make(*, key="any", **args):
        url = f"{live.client(**args).base_url}/v1"
        return openai.OpenAI(base_url=url, api_key=key, max_retries=0)

    return make


class TestCompletions:
    def test_whole_and_streamed(self, sdk):
        whole = sdk().completions.create(**PROMPT)
        assert whole.usage.completion_tokens == 8
        with sdk().completions.create(
            **PROMPT, stream=True, stream_options={"include_usage": True}
        ) as stream:
            *chunks, last = stream
        text = "".join(chunk.choices[0].text for chunk in chunks)
        assert text == whole.choices[0].text
        assert last.choices == []
        assert last.usage == whole.usage

    def test_several_prompts_and_outputs(self, sdk):
        whole = sdk().completions.create(**{**PROMPT, "prompt": ["a", "b"], "n": 2})
        assert [choice.index for choice in whole.choices] == [0, 1, 2, 3]
        texts = [choice.text for choice in whole.choices]
        assert texts[0] == texts[1]
        ids = [[3 + 66], [3 + 67]]
        by_ids = sdk().completions.create(**{**PROMPT, "prompt": ids})
        assert len(by_ids.choices) == 2

    def test_logprobs(self, sdk):
        (choice,) = sdk().completions.create(**PROMPT, logprobs=2, echo=True).choices
        logprobs = choice.logprobs
        assert "".join(logprobs.tokens) == choice.text
        assert logprobs.token_logprobs[0] is None
        assert all(value <= 0 for value in logprobs.token_logprobs[1:])
        assert all(min(top.values()) <= 0 for top in logprobs.top_logprobs[1:])

    def test_fields_of_our_own(self, sdk):
        extra = {"allowed_token_ids": [69], "return_token_ids": True}
        (choice,) = sdk().completions.create(**PROMPT, extra_body=extra).choices
        assert choice.token_ids == [69] * 8


class TestChat:
    def test_whole_and_accumulated(self, sdk):
        whole = sdk().chat.completions.create(**CHAT)
        with sdk().chat.completions.stream(
            **CHAT, stream_options={"include_usage": True}
        ) as stream:
            deltas = [event.delta for event in stream if event.type == "content.delta"]
            final = stream.current_completion_snapshot
        assert "".join(deltas) == final.choices[0].message.content
        assert final.choices[0].message.content == whole.choices[0].message.content
        assert final.choices[0].finish_reason == whole.choices[0].finish_reason == "length"
        assert final.usage.total_tokens == whole.usage.total_tokens

    @pytest.mark.parametrize("stream", [False, True])
    def test_logprobs(self, sdk, stream):
        fields = {"logprobs": True, "top_logprobs": 3}
        (choice,) = ask(sdk(), stream, **fields).choices
        tokens = choice.logprobs.content
        assert len(tokens) == 8
        for token in tokens:
            assert token.logprob == token.top_logprobs[0].logprob
            assert len(token.top_logprobs) == 3
            assert bytes(token.bytes).decode() == token.token

    def test_several_answers_in_a_stream(self, sdk):
        fields = {"n": 2, "temperature": 1.0, "seed": 3}
        whole, streamed = (ask(sdk(), stream, **fields) for stream in (False, True))
        texts = [[choice.message.content for choice in one.choices] for one in (whole, streamed)]
        assert texts[0] == texts[1]

    @pytest.mark.parametrize("stream", [False, True])
    def test_a_model_of_pydantic(self, sdk, stream):
        fields = {"response_format": Umbrella, "max_tokens": 120}
        if stream:
            answer = ask(sdk(), stream, **fields)
        else:
            answer = sdk().chat.completions.parse(**{**CHAT, **fields})
        message = answer.choices[0].message
        assert isinstance(message.parsed, Umbrella)
        assert message.parsed == Umbrella.model_validate_json(message.content)


def ask(client, stream, **fields):
    body = {**CHAT, **fields}
    if not stream:
        return client.chat.completions.create(**body)
    with client.chat.completions.stream(**body) as events:
        try:
            return events.get_final_completion()
        except openai.LengthFinishReasonError as cut:
            return cut.completion


@pytest.mark.parametrize("stream", [False, True])
class TestTools:
    def test_a_named_one(self, sdk, stream):
        choice = {"type": "function", "function": {"name": "rain"}}
        answer = ask(sdk(), stream, tools=TOOLS, tool_choice=choice, max_tokens=60)
        (call,) = answer.choices[0].message.tool_calls
        assert (call.type, call.function.name) == ("function", "rain")
        assert json.loads(call.function.arguments)["in"] in ("Rome", "Oslo")
        assert answer.choices[0].finish_reason == "tool_calls"

    def test_one_of_no_arguments(self, sdk, stream):
        choice = {"type": "function", "function": {"name": "now"}}
        answer = ask(sdk(), stream, tools=TOOLS, tool_choice=choice, max_tokens=60)
        (call,) = answer.choices[0].message.tool_calls
        assert call.function.arguments == "{}"

    def test_any(self, sdk, stream):
        fields = {"tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 120}
        answer = ask(sdk(), stream, tools=TOOLS, **fields)
        (call,) = answer.choices[0].message.tool_calls
        assert call.function.name in ("now", "rain")

    def test_as_the_model_likes(self, sdk, stream):
        extra = {"structured_outputs": {"choice": [CALLS]}}
        client = sdk(**AUTO)
        answer = ask(client, stream, tools=TOOLS, max_tokens=200, extra_body=extra)
        message = answer.choices[0].message
        calls = [(call.function.name, call.function.arguments) for call in message.tool_calls]
        assert message.content == "Let me see."
        assert [(name, json.loads(given)) for name, given in calls] == [
            ("rain", {"in": "Rome"}),
            ("now", {}),
        ]
        assert len({call.id for call in message.tool_calls}) == 2
        assert answer.choices[0].finish_reason == "tool_calls"
        # What came goes back, with the results.
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": "x"} for call in message.tool_calls
        ]
        history = [*USER, message.model_dump(exclude_none=True), *results]
        assert ask(client, stream, messages=history).choices[0].finish_reason == "length"


class TestErrors:
    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize(
        ("fields", "kind", "param"),
        [
            ({"model": "other"}, "NotFoundError", "model"),
            ({"messages": []}, "BadRequestError", "messages"),
            ({"temperature": -1}, "BadRequestError", "temperature"),
            ({"logit_bias": {"999999": 1}}, "BadRequestError", "logit_bias"),
            ({"top_logprobs": 2}, "BadRequestError", "top_logprobs"),
        ],
    )
    def test_are_the_clients_own_classes(self, sdk, fields, kind, param, stream):
        with pytest.raises(getattr(openai, kind)) as caught:
            sdk().chat.completions.create(**{**CHAT, **fields, "stream": stream})
        assert caught.value.param == param
        assert caught.value.body["message"]

    def test_of_keys(self, sdk):
        keys = {"api_key": ("secret",)}
        assert sdk(key="secret", **keys).chat.completions.create(**CHAT).choices
        with pytest.raises(openai.AuthenticationError):
            sdk(key="wrong", **keys).models.list()

    def test_of_size(self, sdk):
        with pytest.raises(openai.APIStatusError) as caught:
            sdk(max_request_bytes=300).completions.create(**{**PROMPT, "prompt": "x" * 400})
        assert caught.value.status_code == 413


def test_raw_responses(sdk):
    raw = sdk().chat.completions.with_raw_response.create(**CHAT)
    assert raw.status_code == 200
    assert raw.headers["content-type"] == "application/json"
    assert raw.parse().choices[0].message.role == "assistant"


def test_models(sdk):
    client = sdk(served_model_name=("a", "org/b"))
    models = client.models.list().data
    assert [model.id for model in models] == ["a", "org/b"]
    assert client.models.retrieve("org/b") == models[1]
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("c")


def test_the_asynchronous_client(sdk):
    import asyncio

    client = sdk()

    async def work():
        async with openai.AsyncOpenAI(base_url=client.base_url, api_key="any") as many:
            answers = (many.chat.completions.create(**CHAT) for _ in range(4))
            return await asyncio.gather(*answers)

    texts = {answer.choices[0].message.content for answer in asyncio.run(work())}
    assert len(texts) == 1
