"""Files of requests in the form of OpenAI's Batch API, answered by the application in process.

A line of the input is ``{"custom_id", "method": "POST", "url", "body"}``; a line of the output is
``{"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error"}``. A request that
the application refuses has its error in ``response``; one that is none has it in ``error``.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec
from starlette.types import ASGIApp, Message

from runtime.core.errors import RequestError

URLS = frozenset(("/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/v1/messages"))
"""What requests may ask for."""


class BatchRequest(msgspec.Struct, frozen=True):
    """One line of the input."""

    custom_id: str
    url: str
    body: dict[str, Any]
    method: str = "POST"


@dataclass
class BatchCounts:
    """How a batch went."""

    answered: int = 0
    failed: int = 0


class Batch:
    """One run over a file's lines.

    Args:
        app: what answers.
        write: takes each line of the output, without its end, in the order in which they are ready.
        concurrency: requests at a time.
        api_key: one that the application takes; None where it takes any.
    """

    def __init__(
        self,
        app: ASGIApp,
        write: Callable[[bytes], None],
        *,
        concurrency: int,
        api_key: str | None = None,
    ) -> None:
        self.counts = BatchCounts()
        self._app = app
        self._write = write
        self._concurrency = concurrency
        self._api_key = api_key
        self._seen: set[str] = set()

    async def run(self, lines: Iterable[bytes]) -> None:
        """Answer all lines; blank ones are passed over."""
        requests = _without_blanks(lines)
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work(requests))

    async def _work(self, requests: Iterator[tuple[int, bytes]]) -> None:
        # The workers share the iterator: each takes the next line when it is free.
        for number, line in requests:
            self._write(await self._answer(number, line))

    async def _answer(self, number: int, line: bytes) -> bytes:
        output: dict[str, Any] = {"id": f"batch_req_{secrets.token_hex(12)}"}
        output |= {"custom_id": None, "response": None, "error": None}
        try:
            request = self._read(line)
        except RequestError as error:
            output["custom_id"] = _custom_id(line)
            message = f"line {number}: {error}".encode("utf-8", "replace").decode()
            output["error"] = {"code": "invalid_request", "message": message}
            self.counts.failed += 1
            return msgspec.json.encode(output)
        status, body = await post(
            self._app, request.url, msgspec.json.encode(request.body), self._api_key
        )
        if status < 400:
            self.counts.answered += 1
        else:
            self.counts.failed += 1
        output["custom_id"] = request.custom_id
        output["response"] = {
            "status_code": status,
            "request_id": secrets.token_hex(12),
            "body": msgspec.Raw(body),
        }
        return msgspec.json.encode(output)

    def _read(self, line: bytes) -> BatchRequest:
        """A line's request.

        Raises:
            RequestError: it is none.
        """
        try:
            request = msgspec.json.decode(line, type=BatchRequest)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RequestError(f"not a request: {error}") from None
        except RecursionError:
            raise RequestError("nested too deeply to be read") from None
        if request.method != "POST":
            raise RequestError(f"method {request.method!r:.80} must be POST", "method")
        if request.url not in URLS:
            known = ", ".join(sorted(URLS))
            raise RequestError(f"url {request.url!r:.200} is not served; known: {known}", "url")
        if request.body.get("stream"):
            raise RequestError("body.stream: a batch has no streams", "body.stream")
        if request.custom_id in self._seen:
            raise RequestError(f"custom_id {request.custom_id!r:.200} came before", "custom_id")
        self._seen.add(request.custom_id)
        return request


def _without_blanks(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(lines, 1):
        stripped = line.removeprefix(b"\xef\xbb\xbf").strip()
        if stripped:
            yield number, stripped


def _custom_id(line: bytes) -> str | None:
    """The id of a line that is no request, where it has one."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    found = value.get("custom_id") if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


async def post(app: ASGIApp, path: str, body: bytes, api_key: str | None) -> tuple[int, bytes]:
    """The status and the body of an application's answer to a JSON body."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if api_key is not None:
        headers.append((b"authorization", b"Bearer " + api_key.encode()))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": None,
        "server": None,
    }
    inbox: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    status, parts = 500, []

    async def receive() -> Message:
        return inbox.pop() if inbox else await _never()

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return status, b"".join(parts)


async def _never() -> NoReturn:
    """Wait for ever: nobody goes away here."""
    await asyncio.Event().wait()
    raise AssertionError
