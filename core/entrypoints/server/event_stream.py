"""Server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable

import msgspec
from fastapi import Response
from starlette.types import Receive, Scope, Send

from runtime.core.engine.outputs import CompletionOutput
from runtime.core.entrypoints.server.disconnect import gone
from runtime.core.entrypoints.server.errors import error_body, response_of

DONE = b"data: [DONE]\n\n"


def event(data: bytes, name: str | None = None) -> bytes:
    """One event."""
    return (
        (b"" if name is None else b"event: " + name.encode() + b"\n") + b"data: " + data + b"\n\n"
    )


class EventStream(Response):
    """A response that sends events while they come, until the client goes.

    ``close`` is called once, at the end, whatever the end was, also if nothing was sent.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        close: Callable[[], None],
        on_error: Callable[[bytes], bytes] | None = None,
    ) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        # The length is not known.
        del self.headers["content-length"]
        self._events = events
        self._close = close
        self._on_error = on_error or _openai_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all events."""
        task = asyncio.ensure_future(self._send(send))
        watch = asyncio.ensure_future(gone(receive))
        try:
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            for one in (task, watch):
                one.cancel()
            with contextlib.suppress(Exception):
                await asyncio.wait({task})
            self._close()

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        async with contextlib.aclosing(self._events):
            async for data in self._guarded():
                await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _guarded(self) -> AsyncIterator[bytes]:
        """The events; a failure on the way is the last one: the status was sent long ago."""
        try:
            async for data in self._events:
                yield data
        except Exception as error:
            yield self._on_error(bytes(response_of(error).body))


def _openai_error(body: bytes) -> bytes:
    return event(body) + DONE


def failed_event(output: CompletionOutput) -> bytes:
    """The event of an output on which the engine failed."""
    return event(msgspec.json.encode(error_body(500, output.error or "the engine failed")))
