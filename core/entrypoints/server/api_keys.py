"""Which clients may use ``/v1``."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable, Mapping

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.core.entrypoints.server.errors import error_response
from runtime.core.entrypoints.server.paths import route_path
from runtime.core.errors import ConfigError

KEY_VARIABLE = "VLLM_API_KEY"
_GUARDED = "/v1"


def api_keys(given: Iterable[str], environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The keys that are valid: those given, else VLLM_API_KEY's.

    Raises:
        ConfigError: a key is empty, which a client could guess.
    """
    keys = tuple(given)
    if any(not key.strip() for key in keys):
        raise ConfigError("--api-key must not be empty")
    own = environ.get(KEY_VARIABLE, "").strip()
    return keys or ((own,) if own else ())


class ApiKeys:
    """ASGI middleware: status 401 for requests to ``/v1`` that bring none of the keys.

    A key comes as ``Authorization: Bearer KEY``, or as ``x-api-key: KEY``, which is how Anthropic's
    clients send it. How long a comparison takes says nothing of the keys.
    """

    def __init__(self, app: ASGIApp, keys: Iterable[str]) -> None:
        self._app = app
        self._digests = [_digest(key.encode()) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan" or self._may(scope):
            await self._app(scope, receive, send)
            return
        refusal = error_response(
            401,
            "a valid API key is required: send Authorization: Bearer KEY",
            headers={"www-authenticate": "Bearer"},
        )
        await refusal(scope, receive, send)

    def _may(self, scope: Scope) -> bool:
        # Browsers ask by OPTIONS, without a key, whether they may send one.
        if scope.get("method") == "OPTIONS":
            return True
        # Both, lest a root path that looks like a part of /v1 opens it.
        if not any(_is_guarded(path) for path in (route_path(scope), scope["path"])):
            return True
        headers = Headers(scope=scope)
        scheme, _, key = headers.get("authorization", "").partition(" ")
        given = [key.strip()] if scheme.lower() == "bearer" else []
        if "x-api-key" in headers:
            given.append(headers["x-api-key"])
        # Headers are latin-1 as Starlette reads them, and keys UTF-8 as users type them.
        return sum(self._is_key(one.encode("latin-1", "replace")) for one in given) > 0

    def _is_key(self, given: bytes) -> bool:
        digest = _digest(given)
        # All of them are compared, whichever is the one.
        return sum(hmac.compare_digest(digest, known) for known in self._digests) > 0


def _is_guarded(path: str) -> bool:
    return path == _GUARDED or path.startswith(f"{_GUARDED}/")


def _digest(key: bytes) -> bytes:
    """Keys of all lengths take the same time to compare."""
    return hashlib.sha256(key).digest()
