"""Clients that go away while they are waited on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from runtime.core.entrypoints.server.errors import ApiError

T = TypeVar("T")

CLIENT_CLOSED_REQUEST = 499
"""Nobody reads it; access logs show it. The number is nginx's."""


async def gone(receive: Receive) -> None:
    """Return when the client has gone. The request's body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Do some work for a client, and cancel it if the client goes.

    Raises:
        ApiError: the client has gone.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(gone(receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ApiError(CLIENT_CLOSED_REQUEST, "the client has gone")
        return task.result()
    finally:
        for one in (task, watch):
            one.cancel()
        # The work's own cleaning up is done when this returns.
        await asyncio.wait({task})
