"""How a stream of messages ends when its request fails on the way."""

import json

import pytest

from runtime.core.entrypoints.server.anthropic.messages import stream_error
from runtime.core.entrypoints.server.errors import ApiError, response_of
from runtime.core.errors import EngineDeadError


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ApiError(500, "it failed"), "api_error"),
        (ApiError(503, "it ended"), "overloaded_error"),
        (EngineDeadError("it died"), "overloaded_error"),
    ],
)
def test_a_failure_is_the_last_event(error, kind):
    name, data = stream_error(response_of(error).body).decode().strip().split("\n")
    assert name == "event: error"
    assert json.loads(data.removeprefix("data: ")) == {
        "type": "error",
        "error": {"type": kind, "message": str(error)},
    }
