"""A limit to the size of what clients send, whatever they say of it."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runtime.core.entrypoints.server.errors import error_response

_PATIENCE = 16
"""Times the limit that is read of a body that says not how long it is."""


class BodyLimit:
    """ASGI middleware: bodies above ``limit`` bytes get status 413 and are not kept."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._limit:
            await self._refuse(scope, receive, send)
            return
        parts: list[Message] = []
        size, more = 0, scope["method"] in ("POST", "PUT", "PATCH", "DELETE")
        while more:
            message = await receive()
            parts.append(message)
            size += len(message.get("body", b""))
            more = message["type"] == "http.request" and message.get("more_body", False)
            if size > self._limit:
                # Read on for a while: a client that is still sending would not see the answer.
                parts.clear()
                more = more and size < _PATIENCE * self._limit
        if size > self._limit:
            await self._refuse(scope, receive, send)
            return
        parts.reverse()

        async def replay() -> Message:
            return parts.pop() if parts else await receive()

        await self._app(scope, replay, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = error_response(
            413,
            f"the body exceeds {self._limit} bytes (--max-request-bytes)",
            headers={"connection": "close"},
        )
        await response(scope, receive, send)
