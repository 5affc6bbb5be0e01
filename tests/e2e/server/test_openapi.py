"""``/openapi.json`` is true: answers are what it says they are."""

import json

import pytest

jsonschema = pytest.importorskip("jsonschema")

USER = [{"role": "user", "content": "hi"}]
FEW = {"max_tokens": 3, "temperature": 0}
TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.fixture(scope="module")
def document(live):
    return live.client().get("/openapi.json").json()


def check(document, path, method, answer):
    said = document["paths"][path][method]["responses"][str(answer.status_code)]
    schema = said["content"]["application/json"]["schema"]
    jsonschema.validate(answer.json(), {**schema, "components": document["components"]})
    return schema


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "a", **FEW}),
        (
            "/v1/completions",
            {
                "prompt": ["a", "b"],
                "logprobs": 2,
                "echo": True,
                "n": 2,
                "prompt_logprobs": 1,
                "return_token_ids": True,
                **FEW,
            },
        ),
        ("/v1/completions", {"prompt": ""}),
        ("/v1/completions", {"prompt": "a", "model": "absent"}),
        ("/v1/chat/completions", {"messages": USER, **FEW}),
        (
            "/v1/chat/completions",
            {
                "messages": USER,
                "logprobs": True,
                "top_logprobs": 2,
                "return_token_ids": True,
                "prompt_logprobs": 0,
                **FEW,
            },
        ),
        (
            "/v1/chat/completions",
            {"messages": USER, "tools": [TOOL], "tool_choice": "required", **FEW, "max_tokens": 60},
        ),
        ("/v1/chat/completions", {"messages": []}),
        ("/v1/messages", {"model": "tiny", "messages": USER, "max_tokens": 3}),
        ("/v1/messages", {"model": "tiny", "messages": USER}),
        ("/tokenize", {"prompt": "a", "return_token_strs": True}),
        ("/tokenize", {"messages": USER}),
        ("/tokenize", {}),
        ("/detokenize", {"tokens": [40, 41]}),
        ("/detokenize", {"tokens": [10**6]}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_answers_are_what_it_says(client, document, path, body):
    answer = client.post(path, json=body)
    assert answer.status_code in (200, 400, 404)
    check(document, path, "post", answer)


def test_each_refusal_is_described(client, document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method == "post" and "requestBody" in operation:
                answer = client.post(path, content=b"x", headers={"content-type": "text/plain"})
                assert answer.status_code == 415, path
                check(document, path, method, answer)
                answer = client.post(
                    path, content=b"x", headers={"content-type": "application/json"}
                )
                assert answer.status_code == 400, path
                check(document, path, method, answer)


def test_lists_and_names(client, document):
    check(document, "/v1/models", "get", client.get("/v1/models"))
    check(document, "/v1/models/{name}", "get", client.get("/v1/models/tiny"))
    check(document, "/v1/models/{name}", "get", client.get("/v1/models/absent"))


def test_answers_without_a_body_have_no_schema(client, document):
    for path in ("/health", "/ping"):
        assert client.get(path).content == b""
        assert "content" not in document["paths"][path]["get"]["responses"]["200"]
    whole = document["paths"]["/v1/completions"]["post"]["responses"]["200"]["content"]
    assert whole["text/event-stream"] == {}


def test_every_path_and_field_is_described(document):
    jsonschema.Draft202012Validator.check_schema({"$defs": document["components"]["schemas"]})
    for path in ("/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/v1/messages"):
        body = document["paths"][path]["post"]["requestBody"]
        assert body["required"]
        assert list(body["content"]) == ["application/json"]
    text = json.dumps(document)
    # What FastAPI answers by itself; here it is status 400 and our error object.
    assert "HTTPValidationError" not in text
