"""What clients may send and should not: each gets its 4xx, and nobody else notices."""

import json

import pytest

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
USER = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def check(answer, status=400, param=...):
    assert answer.status_code == status, answer.text[:500]
    assert len(answer.content) < 65536
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == status
    assert error["message"]
    assert "\n" not in error["message"].strip() or "template" in error["message"]
    if param is not ...:
        assert error["param"] == param, error
    return error


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT, "/tokenize", "/detokenize"])
class TestBodies:
    @pytest.mark.parametrize("body", ["[]", '"x"', "42", "null", "true", "1.5"])
    def test_that_are_no_objects(self, client, path, body):
        check(client.post(path, content=body, headers={"content-type": "application/json"}))

    @pytest.mark.parametrize(
        "body", ["", "{", '{"prompt": ', "{'a': 1}", '{"a": NaN}', '{"a": "\\ud800"}', "\xff", "\0"]
    )
    def test_that_are_no_json(self, client, path, body):
        content = body.encode("latin-1")
        headers = {"content-type": "application/json"}
        check(client.post(path, content=content, headers=headers))

    @pytest.mark.parametrize("kind", [None, "text/plain", "", "multipart/form-data", "x"])
    def test_that_are_not_declared_as_json(self, client, path, kind):
        headers = {} if kind is None else {"content-type": kind}
        check(client.post(path, content=b'{"prompt": "a"}', headers=headers), 415)

    def test_that_are_nested_without_end(self, client, path):
        for body in ("[" * 100_000, '{"prompt": ' + "[" * 100_000 + "]" * 100_000 + "}"):
            headers = {"content-type": "application/json"}
            check(client.post(path, content=body.encode(), headers=headers))

    def test_that_are_nested_deeply(self, client, path):
        value = json.loads("[" * 800 + "]" * 800)
        for field in ("prompt", "messages", "tokens", "stop", "logit_bias"):
            check(client.post(path, json={field: value}))


class TestSizes:
    def test_a_large_body_is_read(self, client):
        check(client.post(COMPLETIONS, json={"prompt": "a" * 5_000_000}), param="prompt")
        check(client.post(CHAT, json={"messages": [{"role": "user", "content": "a" * 50_000}]}))

    def test_a_body_beyond_the_limit_is_refused(self, client):
        check(client.post(COMPLETIONS, content=b"0" * 100_000_000), 413)

    def test_a_body_of_unknown_length_is_refused_at_the_limit(self, client):
        def parts():
            for _ in range(40):
                yield b"0" * 1_000_000

        check(client.post(COMPLETIONS, content=parts()), 413)

    def test_the_limit_is_a_flag(self, live):
        small = live.client(max_request_bytes=100)
        assert small.post(COMPLETIONS, json={"prompt": "a", "max_tokens": 1}).status_code == 200
        check(small.post(COMPLETIONS, json={"prompt": "a" * 200}), 413)


@pytest.mark.parametrize("stream", [False, True])
class TestPrompts:
    @pytest.mark.parametrize(
        "prompt",
        [
            "",
            [],
            [[]],
            [""],
            ["a", ""],
            [-1],
            [[-1]],
            [2**31],
            [2**70],
            [[2**31]],
            [1.5],
            [True],
            [None],
            ["a", 1],
            ["a", [1]],
            [[1], "a"],
            [[[1]]],
            {"a": 1},
            5,
            True,
            1.5,
            [300],
            [[1], [300]],
            "a" * 256,
            [1] * 256,
            ["a"] * 3000,
            ["x"] * 5000 + [1],
        ],
        ids=lambda value: repr(value)[:20],
    )
    def test_that_cannot_be_served(self, client, prompt, stream):
        body = {"prompt": prompt, "max_tokens": 1, "stream": stream}
        error = check(client.post(COMPLETIONS, json=body))
        assert error["param"] in ("prompt", "prompt_token_ids")

    @pytest.mark.parametrize(
        "messages",
        [
            [],
            "hi",
            [1],
            [[]],
            {"role": "user"},
            [{}],
            [{"role": "user"}],
            [{"content": "a"}],
            [{"role": 1, "content": "a"}],
            [{"role": "", "content": "a"}],
            [{"role": "user", "content": 5}],
            [{"role": "user", "content": [5]}],
            [{"role": "user", "content": [{"type": "text"}]}],
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
            [{"role": "user", "content": "a" * 300}],
            [{"role": "critic", "content": "a"}],
            [{"role": 5}] * 5000,
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}],
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "5"}}]}],
            [{"role": "assistant", "tool_calls": [{"function": {}}]}],
        ],
        ids=lambda value: repr(value)[:30],
    )
    def test_conversations_that_cannot_be_served(self, client, messages, stream):
        body = {"messages": messages, "max_tokens": 1, "stream": stream}
        error = check(client.post(CHAT, json=body))
        assert error["param"] is not None

    def test_a_template_speaks_for_itself(self, client, stream):
        body = {"messages": [{"role": "critic", "content": "a"}], "stream": stream}
        error = check(client.post(CHAT, json=body), param="messages")
        assert error["message"] == "no role critic here"


FIELDS = {
    "n": [0, -1, 2**40, "1", 1.5, True],
    "temperature": [-0.1, "1", True, [], 1e400],
    "top_p": [0, -1, 1.1, "x"],
    "top_k": [-2, 1.5, 2**40],
    "min_p": [-0.1, 1.1],
    "presence_penalty": [-2.1, 2.1, "1"],
    "frequency_penalty": [-2.1, 2.1],
    "repetition_penalty": [0, -1],
    "max_tokens": [-1, 1.5, "5", 2**70],
    "min_tokens": [-1, 2**40],
    "seed": [1.5, 2**80, "1"],
    "stop": [5, [5], [""], "", [["a"]]],
    "stop_token_ids": [[-1], [10**9], ["a"], 5, [1.5]],
    "bad_words": [[""], [5], "a"],
    "logit_bias": [{"999999": -100}, {"AI": -100}, {"-1": 5}, {"5": 1e9}, {"5": "x"}, [5], 5],
    "allowed_token_ids": [[], [-1], [10**9], ["a"]],
    "prompt_logprobs": [21, -1, -2, "x"],
    "truncate_prompt_tokens": [0, -2, 10**6, 1.5],
    "truncation_side": ["middle", 5],
    "logits_processors": [["absent"], "absent", [5]],
    "stream_options": [{"include_usage": True}, 5, {"include_usage": "yes"}],
    "stream": ["yes", 1],
    "response_format": [
        5,
        {},
        {"type": "x"},
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": {"name": "x"}},
        {"type": "json_schema", "json_schema": {"schema": 5}},
        {"type": "json_schema", "json_schema": {"schema": {"type": "not-a-type"}}},
        {"type": "json_schema", "json_schema": {"schema": {"properties": {"foo": "bar"}}}},
        {
            "type": "json_schema",
            "json_schema": {"schema": {"type": "string", "minLength": 5, "maxLength": 4}},
        },
        {
            "type": "json_schema",
            "json_schema": {"schema": {"$ref": "#/$defs/n", "$defs": {"n": {"$ref": "#/$defs/n"}}}},
        },
    ],
    "structured_outputs": [
        5,
        {},
        {"regex": "("},
        {"regex": 5},
        {"regex": ""},
        {"choice": []},
        {"choice": [""]},
        {"choice": "ab"},
        {"grammar": "root ::= "},
        {"json": {"type": "not-a-type"}},
        {"json": "{"},
        {"regex": "a", "choice": ["b"]},
        {"unknown": 1},
    ],
    "cache_salt": ["", 5],
    "model": ["absent", 5],
}
CASES = [(name, value) for name, values in FIELDS.items() for value in values]


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
@pytest.mark.parametrize(("name", "value"), CASES, ids=[f"{n}={v!r}"[:40] for n, v in CASES])
def test_a_field_out_of_range_is_named(client, path, name, value):
    start = {"prompt": "a"} if path == COMPLETIONS else {"messages": USER}
    text = json.dumps({**start, "max_tokens": 2, name: value})
    # 1e400 has no JSON; clients write it nevertheless.
    text = text.replace("Infinity", "1e400")
    headers = {"content-type": "application/json"}
    answer = client.post(path, content=text.encode(), headers=headers)
    status = 404 if (name, value) == ("model", "absent") else 400
    error = check(answer, status)
    if "1e400" in text:
        return
    accepted = {name}
    if name == "response_format":
        accepted.add("structured_outputs")
    assert (error["param"] or "").split("[")[0].split(".")[0] in accepted, error


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (COMPLETIONS, {"logprobs": 21}),
        (COMPLETIONS, {"logprobs": -1}),
        (COMPLETIONS, {"logprobs": True}),
        (COMPLETIONS, {"suffix": "x"}),
        (COMPLETIONS, {"best_of": 4}),
        (COMPLETIONS, {"n": 1000, "prompt": ["a"] * 10}),
        (COMPLETIONS, {"min_tokens": 5, "max_tokens": 4}),
        (COMPLETIONS, {"stop": "a", "detokenize": False}),
        (
            COMPLETIONS,
            {"response_format": {"type": "json_object"}, "structured_outputs": {"regex": "a"}},
        ),
        (CHAT, {"top_logprobs": 5}),
        (CHAT, {"logprobs": True, "top_logprobs": 21}),
        (CHAT, {"logprobs": True, "top_logprobs": -1}),
        (CHAT, {"logprobs": 5}),
        (CHAT, {"tool_choice": "required"}),
        (CHAT, {"tool_choice": "sometimes", "tools": [TOOL]}),
        (CHAT, {"tool_choice": "auto", "tools": [TOOL]}),
        (CHAT, {"tools": [TOOL]}),
        (CHAT, {"tools": "x"}),
        (CHAT, {"tools": [{"type": "function"}]}),
        (CHAT, {"tools": [{"type": "function", "function": {"name": ""}}]}),
        (CHAT, {"tool_choice": "required", "tools": [{**TOOL, "type": "x"}]}),
        (CHAT, {"tool_choice": {"type": "function", "function": {"name": "g"}}, "tools": [TOOL]}),
        (
            CHAT,
            {
                "tool_choice": "required",
                "tools": [{"function": {"name": "f", "parameters": {"type": "nothing"}}}],
            },
        ),
        (CHAT, {"max_tokens": 4, "max_completion_tokens": 5}),
        (CHAT, {"chat_template": "{{ 1 }}"}),
        (CHAT, {"chat_template_kwargs": {"messages": []}}),
        (CHAT, {"chat_template_kwargs": 5}),
        (CHAT, {"continue_final_message": True, "add_generation_prompt": True}),
    ],
    ids=lambda value: repr(value)[:40],
)
@pytest.mark.parametrize("stream", [False, True])
def test_fields_that_contradict_each_other_or_this_server(client, path, body, stream):
    start = {"prompt": "a"} if path == COMPLETIONS else {"messages": USER}
    error = check(client.post(path, json={**start, "stream": stream, **body}))
    assert error["param"] is not None


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
def test_null_is_as_if_absent(client, path):
    start = {"prompt": "a"} if path == COMPLETIONS else {"messages": USER}
    schema = client.get("/openapi.json").json()["components"]["schemas"]
    name = "CompletionRequest" if path == COMPLETIONS else "ChatCompletionRequest"
    fields = schema[name]["properties"]
    required = set(schema[name]["required"])
    optional = {field: None for field in fields if field not in required}
    assert len(optional) > 30
    few = {"max_tokens": 3, "temperature": 0}
    plain = client.post(path, json={**start, **few}).json()
    for nulls in ({field: None} for field in optional):
        answer = client.post(path, json={**start, **few, **nulls} | (nulls | few if 0 else {}))
        assert answer.status_code == 200, (nulls, answer.text)
    answer = client.post(path, json={**start, **optional, **few}).json()
    assert answer["choices"] == plain["choices"]


def test_thousands_of_wrong_items_make_a_short_answer(client):
    for field in ("stop_token_ids", "allowed_token_ids", "stop", "bad_words"):
        body = {"prompt": "a", field: [{"x": "y" * 100}] * 5000}
        check(client.post(COMPLETIONS, json=body))


def test_unknown_paths_and_methods(client):
    check(client.get("/nothing"), 404)
    check(client.get(COMPLETIONS), 405)
    check(client.post("/v1/models", json={}), 405)
    check(client.get("/v1/models/absent"), 404)
