"""Routes whose bodies are JSON: how a body becomes an object, before any field is looked at."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from fastapi import Request, Response
from fastapi.routing import APIRoute

from runtime.core.entrypoints.server.errors import ApiError
from runtime.core.entrypoints.server.protocol.base import ErrorResponse, ResponseModel
from runtime.core.errors import RequestError


class JsonRequest(Request):
    """A request whose body is strict JSON: no NaN, no lone surrogates, no bottomless nesting."""

    async def json(self) -> Any:
        """The body's value.

        Raises:
            RequestError: the body is not JSON, or too deep to be read.
        """
        if not hasattr(self, "_value"):
            self._value = decode(await self.body())
        return self._value


def decode(body: bytes) -> Any:
    """The value of strict JSON text.

    Raises:
        RequestError: it is not JSON, or too deep to be read.
    """
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise RequestError("the body is nested too deeply to be read") from None


class JsonRoute(APIRoute):
    """A route that takes a JSON object, or nothing."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, behind the checks of the body as a whole."""
        handler = super().get_route_handler()

        async def checked(request: Request) -> Response:
            request = JsonRequest(request.scope, request.receive)
            if self.body_field is not None:
                _check_content_type(request.headers.get("content-type"))
                value = await request.json()
                if not isinstance(value, dict):
                    raise RequestError(
                        f"the body must be a JSON object, not {type(value).__name__}"
                    )
            return await handler(request)

        return checked


def _check_content_type(given: str | None) -> None:
    kind = (given or "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (
        kind.startswith("application/") and kind.endswith("+json")
    ):
        raise ApiError(
            415, f"content type {given!r} is not taken: send Content-Type: application/json"
        )


def responses(
    model: type[ResponseModel],
    *,
    stream: bool = False,
    error: type[ResponseModel] = ErrorResponse,
) -> dict[int | str, Any]:
    """What a route answers, for ``/openapi.json``."""
    success: dict[str, Any] = {"model": model}
    if stream:
        success["content"] = {"text/event-stream": {}}
        success["description"] = "The answer, or with stream=true server-sent events"
    refusals = {
        400: "The request is refused; the error names the field",
        401: "The API key is missing or wrong",
        404: "There is no such model",
        413: "The body is too large",
        415: "The body is not declared as JSON",
        500: "The engine failed on this request",
        503: "The server is shutting down, or its engine has ended",
    }
    errors: dict[int | str, Any] = {
        status: {"model": error, "description": text} for status, text in refusals.items()
    }
    # Without it FastAPI describes an answer of its own, which add_error_handlers() replaces.
    errors["default"] = {"model": error, "description": "Any other failure"}
    return {200: success, **errors}
