"""What a plugin adds to the HTTP server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ServerExtension:
    """Routes, middleware and stat loggers of one server."""

    routers: Sequence[Any] = ()
    """``fastapi.APIRouter`` objects. Their paths come after the server's own."""
    middleware: Sequence[Callable[[Any], Any]] = ()
    """Each is called with the ASGI application behind it and returns the one in front. They see
    requests that have passed the check of API keys, the first one first."""
    stat_loggers: Sequence[Any] = ()
    """Objects with the methods of ``runtime.core.engine.stats.StatLogger``, called on the event
    loop. One that raises is dropped with a warning."""
