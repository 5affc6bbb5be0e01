"""Clients that go away: their requests end within a second, and nobody else's."""

import json
import socket
import time

import pytest

LONG = {"max_tokens": 230, "temperature": 0, "ignore_eos": True}


@pytest.fixture
def send(live, client):
    """Send a request on a bare socket: ``send(path, body) -> socket``."""

    def run(path, body):
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n"
        )
        connection = socket.create_connection((client.base_url.host, client.base_url.port))
        connection.sendall(head.encode() + data)
        return connection

    return run


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/v1/completions", {"prompt": "once"}),
        ("/v1/completions", {"prompt": ["once", "twice", "thrice"]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
    ],
)
def test_a_request_ends_with_its_client(live, client, send, path, what, n, stream):
    held = [send(path, {**what, **LONG, "n": n, "stream": stream}) for _ in range(4)]
    end = time.monotonic() + 5
    while not live.llm.stats.num_running and time.monotonic() < end:
        time.sleep(0.002)
    assert live.llm.stats.num_running
    if stream:
        assert held[0].recv(10)
    for connection in held:
        connection.close()
    assert live.idle(1.0), live.llm.stats


def test_the_others_go_on(live, client, send):
    def text():
        return client.post("/v1/completions", json={"prompt": "other", **LONG}).json()["choices"]

    alone = text()
    held = [send("/v1/completions", {"prompt": "once", **LONG, "stream": True}) for _ in range(3)]
    for connection in held:
        assert connection.recv(10)
        connection.close()
    assert text() == alone


def test_half_a_request_harms_nobody(live, client):
    address = (client.base_url.host, client.base_url.port)
    for part in (b"", b"POST /v1/completions HTTP/1.1\r\n", b"\x00\xff\r\n\r\n"):
        with socket.create_connection(address) as connection:
            connection.sendall(part)
    with socket.create_connection(address) as connection:
        connection.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
    assert live.idle()
