"""Streams of a server are read as they come, and what goes wrong is told in one line."""

import asyncio
import json

import pytest

from runtime.core.entrypoints.bench.client import (
    Backend,
    Target,
    first_model,
    http_client,
    output_text,
    send,
)
from runtime.core.entrypoints.bench.datasets import BenchRequest
from runtime.core.entrypoints.bench.metrics import Metric
from runtime.core.entrypoints.bench.prompts import BenchPrompt
from runtime.core.errors import RuntimeUserError


def piece(text, **fields):
    return {"choices": [{"index": 0, "text": text, **fields}]}


def chat_piece(**delta):
    return {"choices": [{"index": 0, "delta": delta}]}


def ask(url, *, backend=Backend.COMPLETIONS, prompt=None, key=None, timeout=20, **fields):
    """Send one request."""
    values = {"ignore_eos": False, "extra_body": {}, **fields}
    target = Target(backend, url + backend.endpoint, "tiny", **values)
    request = BenchRequest(prompt or BenchPrompt((5, 6, 7)), 9)

    async def run():
        async with http_client(key, timeout) as client:
            return await send(client, target, request)

    return asyncio.run(run())


def test_a_completion_is_timed_piece_by_piece(server):
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
    server.answer = lambda *_: (
        200,
        [0.05, piece("a"), 0.1, piece("b"), 0.1, piece("cd", finish_reason="length"), usage]
        + ["[DONE]"],
    )
    record = ask(server.url)
    assert record.error is None
    assert record.text == "abcd"
    assert (record.prompt_tokens, record.output_tokens) == (3, 4)
    assert record.samples(Metric.TTFT)[0] >= 0.05
    waits = record.samples(Metric.ITL)
    assert len(waits) == 2
    assert all(wait >= 0.09 for wait in waits)
    assert record.samples(Metric.E2EL)[0] >= 0.25
    assert record.samples(Metric.TPOT)[0] == pytest.approx(sum(waits) / 3)


def test_a_completion_asks_for_what_was_sampled(server):
    server.answer = lambda *_: (200, [piece("a")])
    ask(server.url, key="secret")
    ask(server.url, prompt=BenchPrompt((1,), "word"), ignore_eos=True, extra_body={"top_k": 5})
    (path, tokens), (_, text) = server.asked
    assert path == "/v1/completions"
    assert server.headers_seen[0]["Authorization"] == "Bearer secret"
    assert "Authorization" not in server.headers_seen[1]
    assert tokens == {
        "model": "tiny",
        "prompt": [5, 6, 7],
        "max_tokens": 9,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert text == {**tokens, "prompt": "word", "ignore_eos": True, "top_k": 5}


def test_a_chat_counts_its_pieces_and_not_the_role(server):
    server.answer = lambda *_: (
        200,
        [chat_piece(role="assistant", content=""), 0.1, chat_piece(content="a")]
        + [chat_piece(content="b"), {"choices": [{"delta": {}, "finish_reason": "stop"}]}],
    )
    record = ask(server.url, backend=Backend.CHAT, prompt=BenchPrompt((1, 2), "hello"))
    assert record.error is None
    assert (record.text, record.output_tokens, record.prompt_tokens) == ("ab", 2, 2)
    assert record.samples(Metric.TTFT)[0] >= 0.1
    (path, body) = server.asked[0]
    assert path == "/v1/chat/completions"
    assert body["messages"] == [{"role": "user", "content": "hello"}]
    assert "prompt" not in body


def test_events_are_whole_however_they_are_cut(server):
    body = "".join(f"data: {json.dumps(piece(text))}\r\n\r\n" for text in ("é", "b", "c")).encode()
    parts = [part for byte in body[:90] for part in (bytes([byte]), 0.0005)] + [body[90:]]
    server.answer = lambda *_: (200, [b": a comment\n\nevent: x\n", *parts])
    record = ask(server.url)
    assert record.error is None
    assert record.text == "ébc"
    assert record.output_tokens == 3


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        ({"text": "a"}, "a"),
        ({"text": "a", "finish_reason": "length"}, "a"),
        ({"text": ""}, ""),  # a token whose text is held back
        ({"text": "", "finish_reason": "stop"}, None),
        ({"delta": {"role": "assistant"}}, None),
        ({"delta": {"role": "assistant", "content": "a"}}, "a"),
        ({"delta": {"content": ""}}, ""),
        ({"delta": {"reasoning_content": "hm"}}, "hm"),
        ({"delta": {"content": None, "reasoning": "hm"}}, "hm"),
        ({"delta": {}, "finish_reason": "stop"}, None),
    ],
)
def test_which_pieces_stand_for_tokens(choice, text):
    assert output_text(choice) == text


@pytest.mark.parametrize(
    ("status", "pieces", "message"),
    [
        (400, [b'{"error":\n "no such model"}'], 'HTTP 400: {"error": "no such model"}'),
        (500, [], "HTTP 500:"),
        (200, [], "the stream ended without any output"),
        (200, ["[DONE]"], "the stream ended without any output"),
        (200, [piece("a"), "{nonsense"], "JSONDecodeError: "),
        (200, [piece("a"), {"error": {"message": "boom"}}], "the stream holds "),
        (200, ["[1]"], "the stream holds [1]"),
    ],
)
def test_failures_are_one_line(server, status, pieces, message):
    server.answer = lambda *_: (status, pieces)
    error = ask(server.url).error
    assert message in error
    assert "\n" not in error


def test_a_silent_server_is_given_up(server):
    server.answer = lambda *_: (200, [piece("a"), 0.5, piece("b")])
    assert ask(server.url, timeout=0.1).error == "ReadTimeout"


def test_an_unreachable_server_is_told(server):
    server.server_close()
    assert ask(server.url).error.startswith("ConnectError: ")


def models(url):
    async def run():
        async with http_client(None, 5) as client:
            return await first_model(client, url)

    return asyncio.run(run())


def test_the_first_model_is_taken(server):
    server.answer = lambda *_: (200, [b'{"data": [{"id": "one"}, {"id": "two"}]}'])
    assert models(server.url) == "one"
    assert server.asked == [("/v1/models", None)]


@pytest.mark.parametrize("body", [b"", b"{}", b'{"data": []}', b"[]", b'{"data": [3]}'])
def test_a_server_without_models_is_refused(server, body):
    server.answer = lambda *_: (200, [body])
    with pytest.raises(RuntimeUserError, match=f"{server.url}/v1/models lists no model: name"):
        models(server.url)


def test_a_server_that_cannot_be_asked_is_told(server):
    server.answer = lambda *_: (503, [b"closed\n for the day"])
    with pytest.raises(RuntimeUserError, match="/v1/models: HTTP 503: closed for the day$"):
        models(server.url)
    with pytest.raises(RuntimeUserError, match="^not a url/v1/models: "):
        models("not a url")
