"""Which requests are in flight, and whether new ones are taken."""

from __future__ import annotations

import asyncio
import enum

from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.core.entrypoints.server.errors import error_response
from runtime.core.entrypoints.server.paths import route_path

UNCOUNTED = frozenset({"/health", "/ping", "/version", "/metrics", "/load", "/v1/models", "/"})
"""Routes that are no work for the engine: answered until the end, and waited for by nobody."""


class ServingState(enum.Enum):
    """What a server does with new requests."""

    SERVING = "serving"
    DRAINING = "draining"
    """It was told to end: those that run may finish, new ones are refused."""


class Traffic:
    """The requests of one server. Belongs to its event loop."""

    def __init__(self) -> None:
        self.state = ServingState.SERVING
        self.in_flight = 0
        """Requests for the engine that have begun and whose answers have not ended."""
        self._idle = asyncio.Event()
        self._idle.set()

    def began(self) -> None:
        """A request has begun."""
        self.in_flight += 1
        self._idle.clear()

    def ended(self) -> None:
        """Its answer has ended, or its client has gone."""
        self.in_flight -= 1
        if not self.in_flight:
            self._idle.set()

    async def wait_until_idle(self, seconds: float) -> bool:
        """Wait until no request is in flight, at most so long; returns whether that is so."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True


class Gate:
    """ASGI middleware: counts requests in ``traffic`` and refuses new ones when it drains."""

    def __init__(self, app: ASGIApp, traffic: Traffic) -> None:
        self._app = app
        self._traffic = traffic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http" or route_path(scope) in UNCOUNTED:
            await self._app(scope, receive, send)
            return
        if self._traffic.state is not ServingState.SERVING:
            refusal = error_response(
                503,
                "the server is shutting down and takes no new requests",
                headers={"connection": "close", "retry-after": "5"},
            )
            await refusal(scope, receive, send)
            return
        self._traffic.began()
        try:
            await self._app(scope, receive, send)
        finally:
            self._traffic.ended()
