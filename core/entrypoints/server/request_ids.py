"""What a request is called, in the server's log and in its client's."""

from __future__ import annotations

import re
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "x-request-id"
_NAME = re.compile(r"[\x21-\x7e]{1,256}")


def request_id_of(request: HTTPConnection) -> str:
    """The id of a request: what its client sent as ``X-Request-Id``, else a new one.

    Clients may send the same twice, also at once: an engine request needs more than this.
    """
    state = request.scope.setdefault("state", {})
    if "request_id" not in state:
        state["request_id"] = secrets.token_hex(16)
    name: str = state["request_id"]
    return name


def new_id(prefix: str, request: HTTPConnection) -> str:
    """A new id of the engine's work for a request, by which its log lines are found."""
    return f"{prefix}-{request_id_of(request)}-{secrets.token_hex(4)}"


class RequestIds:
    """ASGI middleware: gives each request its id, and each answer the header."""

    def __init__(self, app: ASGIApp, answer: bool = True) -> None:
        self._app = app
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        # What could break a log line, or fill it, is no id.
        name = given if _NAME.fullmatch(given) else secrets.token_hex(16)
        scope.setdefault("state", {})["request_id"] = name

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = name
            await send(message)

        await self._app(scope, receive, send_with_id if self._answer else send)
