"""``/v1/embeddings`` through an application in this process, over MiniLM and over a decoder."""

import asyncio
import base64
import dataclasses
import json
import time

import httpx
import numpy as np
import pytest

from runtime import AsyncLLM
from runtime.core.entrypoints.server.app import build_app
from runtime.core.entrypoints.server.args import ServerArgs
from runtime.core.entrypoints.server.context import ServerContext
from runtime.core.entrypoints.server.protocol.embedding import EmbeddingResponse
from runtime.core.pooling import requests

pytestmark = [pytest.mark.weights, pytest.mark.xdist_group("minilm")]

PATH = "/v1/embeddings"
LONG = "the sea was calm and the sky was wide " * 40


class Site:
    """An application on an event loop of its own, and plain calls of it."""

    def __init__(self, model, **options):
        self.llm = AsyncLLM(str(model), use_tqdm_on_load=False, platform="cpu", **options)
        args = ServerArgs(served_model_name=("tiny",))
        self.app = build_app(ServerContext.create(self.llm, args))
        transport = httpx.ASGITransport(self.app)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://site", timeout=60)
        self.runner = asyncio.Runner()

    def post(self, *bodies, path=PATH):
        """The answers to some requests at once; to one, its own."""

        async def all_of():
            posts = [self.client.post(path, json=body) for body in bodies]
            return await asyncio.gather(*posts)

        answers = self.runner.run(all_of())
        return answers[0] if len(bodies) == 1 else answers

    def get(self, path):
        return self.runner.run(self.client.get(path))

    def vectors(self, **body):
        answer = self.post(body)
        assert answer.status_code == 200, answer.text
        found = EmbeddingResponse.model_validate_json(answer.content)
        assert [one.index for one in found.data] == list(range(len(found.data)))
        return np.array([numbers(one.embedding) for one in found.data], dtype=np.float32)

    def close(self):
        self.runner.run(self.client.aclose())
        self.llm.shutdown()
        self.runner.close()


def numbers(embedding):
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
    return embedding


@pytest.fixture(scope="module")
def site(minilm_path):
    made = Site(minilm_path)
    yield made
    made.close()


@pytest.fixture
def served(site):
    """The site; after the test, it must be as it was."""
    before = site.vectors(input="once upon a time")
    yield site
    assert np.array_equal(site.vectors(input="once upon a time"), before)
    assert site.llm.num_unfinished_requests == 0


def check(answer, status=400, param="input"):
    assert answer.status_code == status, answer.text[:300]
    assert len(answer.content) < 65536
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["param"]) == (status, param), error
    return error["message"]


def test_the_answer_has_the_usual_shape(served):
    answer = served.post({"model": "tiny", "input": ["a b", "c"], "user": "someone"}).json()
    assert set(answer) == {"id", "object", "created", "model", "data", "usage"}
    assert (answer["object"], answer["model"]) == ("list", "tiny")
    assert [set(one) for one in answer["data"]] == [{"object", "index", "embedding"}] * 2
    assert answer["data"][1]["object"] == "embedding"
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["total_tokens"]) == (4 + 3, 4 + 3)
    assert usage["completion_tokens"] == 0


@pytest.mark.parametrize("encoding_format", ["float", "base64", None])
def test_one_vector_for_each_text_of_any_length(served, encoding_format):
    texts = ["one two three", "word " * 30, "x"]
    got = served.vectors(input=texts, encoding_format=encoding_format)
    assert got.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(got, axis=1), 1, rtol=1e-5)
    for text, vector in zip(texts, got, strict=True):
        np.testing.assert_allclose(served.vectors(input=text)[0], vector, atol=1e-6)


def test_both_formats_have_the_same_numbers(served):
    text = "The same numbers, bit by bit"
    assert np.array_equal(
        served.vectors(input=text), served.vectors(input=text, encoding_format="base64")
    )


def test_token_ids_and_texts_are_alike(served):
    tokens = served.post({"prompt": "hello there"}, path="/tokenize").json()["tokens"]
    by_text = served.vectors(input="hello there")
    for given in (tokens, [tokens]):
        assert np.array_equal(served.vectors(input=given), by_text)
    assert served.vectors(input=[tokens, tokens[:3]]).shape == (2, 384)
    bare = served.vectors(input="hello there", add_special_tokens=False)
    assert np.array_equal(bare, served.vectors(input=tokens[1:-1]))


def test_vectors_may_keep_their_length(served):
    plain, raw = served.vectors(input="a"), served.vectors(input="a", normalize=False)
    assert np.linalg.norm(raw) > 2
    np.testing.assert_allclose(raw / np.linalg.norm(raw), plain, atol=1e-6)


@pytest.mark.parametrize(
    "value",
    [
        "",
        [],
        [[]],
        [""],
        ["a", ""],
        [-1],
        [[-1]],
        [2**31],
        [1.5],
        [True],
        [None],
        ["a", 1],
        ["a", [1]],
        [[[1]]],
        {"a": 1},
        5,
        [30522],
        [[5], [30522]],
        [5] * 257,
        LONG,
        ["a", LONG],
        ["a"] * 2049,
    ],
    ids=lambda value: repr(value)[:20],
)
def test_inputs_that_cannot_be_served(served, value):
    check(served.post({"input": value}))


def test_a_refusal_names_the_text_at_fault(served):
    assert check(served.post({"input": ["a", "b", LONG]})).startswith("input[2]: prompt has ")
    check(served.post({}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dimensions", 64),
        ("dimensions", 0),
        ("dimensions", -1),
        ("dimensions", 385),
        ("dimensions", 2**40),
        ("dimensions", "64"),
        ("dimensions", 1.5),
        ("dimensions", True),
        ("encoding_format", "int8"),
        ("encoding_format", 5),
        ("normalize", "yes"),
        ("truncate_prompt_tokens", 513),
        ("truncate_prompt_tokens", 257),
        ("truncate_prompt_tokens", 0),
        ("truncate_prompt_tokens", -2),
        ("truncate_prompt_tokens", [1]),
        ("priority", 2**31),
        ("user", 5),
    ],
)
def test_parameters_that_cannot_be_served(served, field, value):
    check(served.post({"input": "a", field: value}), param=field)


@pytest.mark.parametrize(
    "field", ["model", "encoding_format", "dimensions", "user", "normalize", "priority"]
)
def test_null_is_as_absent(served, field):
    assert np.array_equal(served.vectors(input="a", **{field: None}), served.vectors(input="a"))


@pytest.mark.parametrize("keep", [-1, 128, 256])
def test_long_texts_are_cut_where_that_is_asked(served, keep):
    answer = served.post({"input": [LONG, "a"], "truncate_prompt_tokens": keep}).json()
    length = 256 if keep == -1 else keep
    assert answer["usage"]["prompt_tokens"] == length + 3


def test_an_unknown_model_is_not_found(served):
    check(served.post({"input": "a", "model": "other"}), 404, "model")


def test_a_model_that_pools_completes_nothing(served):
    body = {"prompt": "a", "max_tokens": 1}
    for stream in (False, True):
        answer = served.post({**body, "stream": stream}, path="/v1/completions")
        assert "generates no text" in check(answer, param="model")
    messages = [{"role": "user", "content": "a"}]
    answer = served.post({"messages": messages}, path="/v1/chat/completions")
    assert "generates no text" in check(answer, param="model")


def test_many_at_once_and_some_of_them_wrong(served):
    bodies = [{"input": [f"text {n}", "word " * (n % 50 + 1)]} for n in range(1, 100)]
    bodies[7], bodies[50] = {"input": ["fine", LONG]}, {"input": []}
    answers = served.post(*bodies)
    for number, answer in enumerate(answers):
        if number in (7, 50):
            check(answer)
            continue
        first = answer.json()["data"][0]["embedding"]
        if number % 20 == 0:
            alone = served.vectors(input=bodies[number]["input"][0])[0]
            np.testing.assert_allclose(first, alone, atol=1e-6)


def test_a_client_that_leaves_ends_its_request(served):
    """The rest of half a minute's work is not done."""
    body = json.dumps({"input": ["word " * 200] * 1000}).encode()
    scope = {
        "type": "http",
        "method": "POST",
        "path": PATH,
        "raw_path": PATH.encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }

    async def leave():
        left, parts = asyncio.Event(), [{"type": "http.request", "body": body}]

        async def receive():
            if parts:
                return parts.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message): ...

        call = asyncio.create_task(served.app(scope, receive, send))
        while not served.llm.num_unfinished_requests:
            await asyncio.sleep(0.001)
        left.set()
        await asyncio.wait_for(call, 5)
        assert served.llm.num_unfinished_requests == 0
        end = time.monotonic() + 5
        while served.llm.stats.num_running or served.llm.stats.num_waiting:
            assert time.monotonic() < end, "the engine is still at it"
            await asyncio.sleep(0.01)

    served.runner.run(leave())


def test_the_schema_is_published(served):
    document = served.get("/openapi.json").json()
    body = document["components"]["schemas"]["EmbeddingRequest"]["properties"]
    assert {"input", "model", "encoding_format", "dimensions", "user"} <= set(body)
    assert body["encoding_format"]["enum"] == ["float", "base64"]


@pytest.mark.parametrize("runner", ["auto", "pooling"])
def test_a_decoder_embeds_where_it_is_told_to(byte_model, runner):
    site = Site(byte_model, dtype="float32", max_num_seqs=8, runner=runner)
    try:
        answer = site.post({"input": "hello"})
        if runner == "auto":
            assert "start it with runner='pooling'" in check(answer, param="model")
            done = site.post({"prompt": "a", "max_tokens": 2}, path="/v1/completions")
            assert done.status_code == 200
        else:
            assert answer.status_code == 200
            vector = answer.json()["data"][0]["embedding"]
            assert len(vector) == site.llm.config.model.hf.hidden_size
    finally:
        site.close()


def test_the_engine_fails_on_one_text(served, monkeypatch):
    """What the engine says of one request is that request's answer."""
    take = requests.PendingPooling.take

    def failing(self, output):
        result = take(self, output)
        if result is not None and len(result.prompt_token_ids) == 5:
            return dataclasses.replace(result, finish_reason="error", error="no numbers")
        return result

    monkeypatch.setattr(requests.PendingPooling, "take", failing)
    bad, good = served.post({"input": "one two three"}, {"input": "one"})
    assert check(bad, 500, None) == "no numbers"
    assert good.status_code == 200
