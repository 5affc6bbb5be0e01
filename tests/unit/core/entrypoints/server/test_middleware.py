"""What stands before the routes: keys, request ids, the gate, cross-origin requests."""

import asyncio

import httpx
import pytest
from starlette.responses import PlainTextResponse

from runtime.core.entrypoints.server.api_keys import ApiKeys, api_keys
from runtime.core.entrypoints.server.request_ids import RequestIds, request_id_of
from runtime.core.entrypoints.server.traffic import Gate, ServingState, Traffic
from runtime.core.errors import ConfigError


async def answer(scope, receive, send):
    """An application that answers with the request's id."""
    from starlette.requests import Request

    await PlainTextResponse(request_id_of(Request(scope)))(scope, receive, send)


def ask(app, path="/v1/completions", *, method="POST", root_path="", **headers):
    async def work():
        transport = httpx.ASGITransport(app, root_path=root_path)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            own = {name.replace("_", "-"): value for name, value in headers.items()}
            return await client.request(method, path, headers=own)

    return asyncio.run(work())


@pytest.fixture
def guarded():
    return ApiKeys(answer, ["sesame", "schlüssel"])


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer sesame"},
        {"authorization": "bearer sesame"},
        {"authorization": "Bearer  sesame "},
        {"authorization": "Bearer schlüssel".encode()},
        {"x_api_key": "sesame"},
        {"authorization": "Bearer wrong", "x_api_key": "sesame"},
    ],
)
def test_each_key_opens(guarded, headers):
    assert ask(guarded, **headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": "sesame"},
        {"authorization": "Basic sesame"},
        {"authorization": "Bearer sesam"},
        {"authorization": "Bearer sesame2"},
        {"authorization": "Bearer SESAME"},
        {"authorization": "Bearer sesame schlüssel".encode()},
        {"x_api_key": ""},
    ],
)
def test_anything_else_does_not(guarded, headers):
    response = ask(guarded, **headers)
    assert response.status_code == 401
    assert response.json()["error"]["type"] == "AuthenticationError"
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("path", "root_path", "open_"),
    [
        ("/health", "", True),
        ("/metrics", "", True),
        ("/v10/x", "", True),
        ("/v1", "", False),
        ("/v1/", "", False),
        ("/v1/models", "", False),
        ("/a/v1/models", "/a", False),
        ("/v1/models", "/a", False),
        ("/v1/models", "/v1", False),
        ("/v1/health", "/v1", False),
    ],
)
def test_v1_alone_is_guarded_wherever_a_proxy_puts_it(guarded, path, root_path, open_):
    response = ask(guarded, path, method="GET", root_path=root_path)
    assert response.status_code == (200 if open_ else 401)


def test_browsers_may_ask_without_a_key(guarded):
    assert ask(guarded, method="OPTIONS").status_code == 200


def test_keys_come_from_the_flag_else_from_the_environment():
    environ = {"VLLM_API_KEY": "env"}
    assert api_keys(("a", "b"), environ) == ("a", "b")
    assert api_keys((), environ) == ("env",)
    assert api_keys((), {"VLLM_API_KEY": " "}) == api_keys((), {}) == ()
    with pytest.raises(ConfigError, match="empty"):
        api_keys(("a", ""), {})


def test_a_request_keeps_the_id_that_its_client_gave():
    response = ask(RequestIds(answer), x_request_id="mine-1")
    assert response.text == response.headers["x-request-id"] == "mine-1"


@pytest.mark.parametrize("given", ["", "a b", "a\tb", "x" * 257, "ä".encode("latin-1")])
def test_what_is_no_id_is_replaced(given):
    response = ask(RequestIds(answer), x_request_id=given)
    assert response.text == response.headers["x-request-id"]
    assert len(response.text) == 32


def test_requests_without_an_id_get_different_ones():
    app = RequestIds(answer)
    assert ask(app).text != ask(app).text


def test_the_header_can_be_left_out():
    response = ask(RequestIds(answer, answer=False), x_request_id="mine")
    assert response.text == "mine"
    assert "x-request-id" not in response.headers


def test_the_gate_refuses_new_work_and_lets_watchers_in():
    traffic = Traffic()
    app = Gate(answer, traffic)
    assert ask(app).status_code == 200
    traffic.state = ServingState.DRAINING
    response = ask(app)
    assert response.status_code == 503
    assert response.json()["error"]["type"] == "ServiceUnavailableError"
    assert "retry-after" in response.headers
    assert ask(app, "/metrics", method="GET").status_code == 200


def test_the_gate_counts_requests_until_they_end_however_they_do():
    traffic = Traffic()

    async def broken(scope, receive, send):
        assert traffic.in_flight == 1
        raise ZeroDivisionError

    async def work():
        assert await traffic.wait_until_idle(0)
        held = asyncio.Event()

        async def hold(scope, receive, send):
            await held.wait()

        scope = {"type": "http", "path": "/v1/completions"}
        running = asyncio.ensure_future(Gate(hold, traffic)(scope, None, None))
        await asyncio.sleep(0)
        assert traffic.in_flight == 1
        assert not await traffic.wait_until_idle(0.01)
        held.set()
        assert await traffic.wait_until_idle(5)
        await running

    asyncio.run(work())
    with pytest.raises(ZeroDivisionError):
        ask(Gate(broken, traffic))
    assert traffic.in_flight == 0
