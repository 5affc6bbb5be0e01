"""Errors as Anthropic's API has them: ``{"type": "error", "error": {"type", "message"}}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PREFIX = "/v1/messages"
"""Paths that speak this API."""

_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def is_anthropic(path: str) -> bool:
    """Whether a route's path belongs to this API."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def anthropic_error(status: int, message: str) -> dict[str, Any]:
    """The error object."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}
