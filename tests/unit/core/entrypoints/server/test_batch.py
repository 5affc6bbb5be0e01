"""Batches over an application that repeats what it is told."""

import asyncio
import json

import pytest
from fastapi import FastAPI, Request, Response

from runtime.core.entrypoints.server.batch import Batch


class Echo:
    """Answers with the request's body; ``status`` of the body is its status."""

    def __init__(self):
        self.app = FastAPI()
        self.busy = self.most = 0
        self.keys = []

        @self.app.post("/v1/completions")
        async def answer(request: Request) -> Response:
            self.busy += 1
            self.most = max(self.most, self.busy)
            self.keys.append(request.headers.get("authorization"))
            body = await request.json()
            await asyncio.sleep(body.get("seconds", 0))
            self.busy -= 1
            content = json.dumps({"echo": body})
            return Response(content, body.get("status", 200), media_type="application/json")


def request(custom_id, **fields):
    body = fields.pop("body", {})
    line = {"custom_id": custom_id, "method": "POST", "url": "/v1/completions", "body": body}
    return json.dumps({**line, **fields}).encode()


def run(lines, concurrency=4, **options):
    echo, written = Echo(), []
    batch = Batch(echo.app, written.append, concurrency=concurrency, **options)
    asyncio.run(batch.run(lines))
    outputs = [json.loads(line) for line in written]
    assert all(set(one) == {"id", "custom_id", "response", "error"} for one in outputs)
    assert len({one["id"] for one in outputs}) == len(outputs)
    return outputs, batch.counts, echo


def test_each_answer_has_its_requests_id():
    bodies = {f"r{i}": {"value": i, "seconds": 0.01 * (5 - i)} for i in range(5)}
    outputs, counts, _ = run([request(name, body=body) for name, body in bodies.items()])
    got = {one["custom_id"]: one["response"]["body"]["echo"] for one in outputs}
    assert got == bodies
    assert all(one["error"] is None for one in outputs)
    assert (counts.answered, counts.failed) == (5, 0)


@pytest.mark.parametrize(
    ("line", "said", "custom_id"),
    [
        (b"no", "not a request", None),
        (b"[]", "not a request", None),
        (b"\xff", "not a request", None),
        (b"[" * 100_000, "line 2", None),
        (b'{"custom_id": "x"}', "url", "x"),
        (request(7), "custom_id", None),
        (request("x", body=[]), "body", "x"),
        (request("x", method="GET"), "method 'GET'", "x"),
        (request("x", url="/metrics"), "url '/metrics'", "x"),
        (request("x", body={"stream": True}), "stream", "x"),
        (request("a"), "custom_id 'a'", "a"),
    ],
)
def test_what_is_no_request_harms_no_other(line, said, custom_id):
    outputs, counts, _ = run([request("a"), line, b"", request("b")], concurrency=1)
    assert [one["custom_id"] for one in outputs] == ["a", custom_id, "b"]
    bad = outputs[1]
    assert bad["response"] is None
    assert bad["error"]["code"] == "invalid_request"
    assert bad["error"]["message"].startswith("line 2: ")
    assert said in bad["error"]["message"]
    assert (counts.answered, counts.failed) == (2, 1)


def test_what_the_application_refuses_is_its_answer():
    outputs, counts, _ = run([request("a", body={"status": 400}), request("b")])
    statuses = {one["custom_id"]: one["response"]["status_code"] for one in outputs}
    assert statuses == {"a": 400, "b": 200}
    assert all(one["error"] is None for one in outputs)
    assert (counts.answered, counts.failed) == (1, 1)


def test_so_many_at_a_time():
    _, counts, echo = run(
        [request(str(i), body={"seconds": 0.005}) for i in range(20)], concurrency=3
    )
    assert echo.most == 3
    assert counts.answered == 20


@pytest.mark.parametrize(("key", "sent"), [(None, None), ("secret", "Bearer secret")])
def test_the_applications_key_is_sent(key, sent):
    _, _, echo = run([request("a")], api_key=key)
    assert echo.keys == [sent]


def test_a_byte_order_mark_is_passed_over():
    outputs, _, _ = run([b"\xef\xbb\xbf" + request("a") + b"\r\n"])
    assert outputs[0]["custom_id"] == "a"
