"""Errors as clients of this API expect them: ``{"error": {"message", "type", "param", "code"}}``.

::

    RequestError                        400   what the engine or a check of ours refuses
    RequestValidationError              400   a field of a wrong type, missing or out of range
    ApiError                            its own status
    HTTPException                       its own status: unknown paths, wrong methods
    EngineDeadError                     503
    anything else                       500   a fault of ours, logged with its traceback
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from runtime.core.entrypoints.server.anthropic.errors import anthropic_error, is_anthropic
from runtime.core.entrypoints.server.paths import route_path
from runtime.core.errors import EngineDeadError, RequestError
from runtime.plugins.records import one_line

logger = logging.getLogger(__name__)

MAX_MESSAGE = 4096
"""Longest message, in characters: what was wrong may be as long as the request."""

_TYPES = {
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    422: "BadRequestError",
    429: "RateLimitError",
    500: "InternalServerError",
    503: "ServiceUnavailableError",
}


class ErrorAnswer(Response):
    """An answer that is an error, in the form of the API that was asked."""

    def __init__(
        self,
        status: int,
        message: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._error = error_body(status, message, param)
        content = msgspec.json.encode(self._error)
        super().__init__(content, status, dict(headers or {}), "application/json")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        if is_anthropic(route_path(scope)):
            body = anthropic_error(self.status_code, self._error["error"]["message"])
            self.body = msgspec.json.encode(body)
            self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


class ApiError(Exception):
    """An answer with an error status other than 400."""

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param


def error_body(status: int, message: str, param: str | None = None) -> dict[str, Any]:
    """The error object."""
    if len(message) > MAX_MESSAGE:
        message = f"{message[:MAX_MESSAGE]}…"
    kind = _TYPES.get(status, "BadRequestError" if status < 500 else "InternalServerError")
    # Lone surrogates can come in with a request; no encoding has them.
    message = message.encode("utf-8", "replace").decode()
    param = None if param is None else param[:256].encode("utf-8", "replace").decode()
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def error_response(
    status: int,
    message: str,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An answer that is an error."""
    return ErrorAnswer(status, message, param, headers)


def response_of(error: Exception) -> Response:
    """The answer to a request that ended in an exception."""
    headers: Mapping[str, str] | None = None
    param: str | None = None
    match error:
        case RequestError():
            status, message, param = 400, str(error), error.param
        case RequestValidationError():
            status, (message, param) = 400, summary(error.errors())
        case ApiError():
            status, message, param = error.status, str(error), error.param
        case HTTPException():
            status, headers = error.status_code, error.headers
            message = str(error.detail) or HTTPStatus(status).phrase
        case EngineDeadError():
            status, message = 503, str(error)
        case _:
            logger.error("a request failed: %s", one_line(error), exc_info=error)
            status, message = 500, "the server failed on this request; its log has the cause"
    return error_response(status, message, param, headers)


def summary(errors: Sequence[Mapping[str, Any]]) -> tuple[str, str | None]:
    """What is wrong with a request's fields: the first fault, how many more, and its field."""
    first = errors[0]
    # The first part says where the data came from: body, query, path.
    place = [str(part) for part in first["loc"][1:]] or [str(first["loc"][0])]
    field = _path(first["loc"][1:])
    cause = (first.get("ctx") or {}).get("error")
    said = str(cause) if cause is not None else str(first["msg"])
    if first["type"] == "json_invalid":
        return f"the body is not JSON: {said}", None
    if isinstance(cause, RequestError):
        return (said, cause.param) if cause.param else (f"{field or place[0]}: {said}", field)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    value = "" if first["type"] == "missing" else f", not {first.get('input')!r:.100}"
    return f"{field or place[0]}: {said}{value}{more}", field


def _path(parts: Sequence[str | int]) -> str | None:
    """``messages[0].role``. Names in brackets are pydantic's own, of a union's members."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.isidentifier():
            text += f".{part}" if text else part
    return text or None


def add_error_handlers(app: FastAPI) -> None:
    """Give every exception its answer."""

    async def handle(_request: Request, error: Exception) -> Response:
        return response_of(error)

    for kind in (
        RequestError,
        RequestValidationError,
        ApiError,
        HTTPException,
        EngineDeadError,
        Exception,
    ):
        app.add_exception_handler(kind, handle)
