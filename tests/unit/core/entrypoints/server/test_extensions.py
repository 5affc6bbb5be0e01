"""What plugins add to the server: where it stands, and that its faults are its own."""

import asyncio
import logging
from types import SimpleNamespace

import httpx
import pytest
from fastapi import APIRouter

from runtime.core.engine.wire import EngineStats
from runtime.core.entrypoints.server.app import build_app
from runtime.core.entrypoints.server.args import ServerArgs
from runtime.core.entrypoints.server.context import ServerContext
from runtime.core.entrypoints.server.extensions import GuardedStatLogger, _checked
from runtime.core.errors import EngineDeadError
from runtime.plugins import PluginError, ServerExtension


class Engine:
    """An engine as the monitoring routes see it."""

    dead = False

    def check_health(self):
        if self.dead:
            raise EngineDeadError("it was killed")


@pytest.fixture
def ask():
    """Send a request to an app: ``ask(extensions, path, **headers) -> response``."""

    def send(extensions, path, method="GET", engine=None, **headers):
        args = ServerArgs(api_key=("sesame",))
        app = build_app(ServerContext(engine or Engine(), args, ("m",)), extensions)

        async def work():
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.request(method, path, headers=headers)

        return asyncio.run(work())

    return send


def routed(path, text):
    router = APIRouter()

    @router.get(path)
    def give():
        return text

    return router


def heard(name, log):
    """A middleware that notes whom it lets through."""

    def make(app):
        async def call(scope, receive, send):
            if scope["type"] == "http":
                log.append((name, scope["path"], scope["state"]["request_id"]))
            await app(scope, receive, send)

        return call

    return make


def test_routes_are_added_and_take_no_route_away(ask):
    extension = ServerExtension(routers=[routed("/v1/acme", "new"), routed("/version", "mine")])
    assert ask([extension], "/v1/acme", authorization="Bearer sesame").json() == "new"
    assert ask([extension], "/v1/acme").status_code == 401
    assert ask([extension], "/version").json() != "mine"


def test_middleware_stands_in_order_behind_the_keys(ask):
    log = []
    extensions = [
        ServerExtension(middleware=[heard("a", log), heard("b", log)]),
        ServerExtension(middleware=[heard("c", log)]),
    ]
    assert ask(extensions, "/v1/models").status_code == 401
    assert log == []
    request = {"authorization": "Bearer sesame", "x-request-id": "mine"}
    assert ask(extensions, "/v1/nothing", **request).status_code == 404
    assert log == [(name, "/v1/nothing", "mine") for name in "abc"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (5, "returned 5 where a ServerExtension is expected"),
        (ServerExtension(routers=["/x"]), "its router '/x' is no fastapi.APIRouter"),
        (ServerExtension(middleware=[None]), "its middleware None cannot be called"),
        (ServerExtension(stat_loggers=[object()]), r"has no record_step\(\)"),
    ],
)
def test_what_is_no_extension_is_refused(given, expected):
    with pytest.raises(PluginError, match=expected):
        _checked(given, "acme")


def test_a_stat_logger_that_raises_is_dropped_with_a_warning(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("runtime"), "propagate", True)
    calls = []

    def fail(stats):
        calls.append(stats)
        raise ZeroDivisionError("its fault")

    logger = GuardedStatLogger(
        SimpleNamespace(record_step=fail, record_tokens=lambda *args: calls.append(args)), "acme"
    )
    logger.record_tokens(3, (0.5,))
    for _ in range(2):
        logger.record_step(EngineStats())
    logger.record_tokens(4, ())
    assert calls == [(3, (0.5,)), EngineStats()]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        "the stat logger of plugin 'acme' failed: ZeroDivisionError: its fault; going on without it"
    )


def test_health_is_the_engines(ask):
    engine = Engine()
    assert ask([], "/health", engine=engine).status_code == 200
    assert ask([], "/ping", "POST", engine=engine).status_code == 200
    assert ask([], "/load", engine=engine).json() == {"server_load": 0}
    engine.dead = True
    response = ask([], "/health", engine=engine)
    assert response.status_code == 503
    assert response.json()["error"]["message"] == "it was killed"
