"""``runtime chat --url`` and ``runtime complete``: what a server is sent and what is shown."""

import io
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from runtime.core.entrypoints.cli.main import main


class Handler(BaseHTTPRequestHandler):
    """Answers with what the test prepared."""

    def do_GET(self):
        self.answer(200, {"data": [{"id": "first"}, {"id": "second"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append((self.path, body, self.headers.get("authorization")))
        status, events = self.server.answers.pop(0)
        if status != 200:
            self.answer(status, events)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for event in events:
            data = event if isinstance(event, str) else json.dumps(event)
            self.wfile.write(f": a comment\n\ndata: {data}\n\n".encode())

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_): ...


@pytest.fixture
def server():
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.seen, made.answers = [], []
    made.url = f"http://127.0.0.1:{made.server_port}"
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def run(server, monkeypatch):
    """Run a command against the server: ``run(words, text) -> exit status``."""
    monkeypatch.setattr("runtime.core.entrypoints.cli.main.set_up_logging", lambda: None)
    monkeypatch.setenv("no_proxy", "*")

    def start(*words, text="", url=None):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        return main([words[0], "--url", url or server.url, *words[1:]])

    return start


def deltas(*pieces):
    chunks = [{"choices": [{"delta": {"role": "assistant", "content": ""}}]}]
    chunks += [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
    return 200, [*chunks, {"choices": [{"delta": {}, "finish_reason": "stop"}]}, "[DONE]"]


def texts(*pieces):
    return 200, [*({"choices": [{"text": piece}]} for piece in pieces), {"choices": []}, "[DONE]"]


def test_a_conversation_adds_up(run, server, capsys):
    server.answers += [deltas("Hel", "lo"), deltas("Bye")]
    assert run("chat", "--temperature", "0.5", text="hi\nso long\n", url=server.url + "/v1/") == 0
    assert capsys.readouterr().out == "Hello\nBye\n"
    path, body, key = server.seen[1]
    assert (path, key) == ("/v1/chat/completions", None)
    assert body == {
        "model": "first",
        "stream": True,
        "max_tokens": 512,
        "temperature": 0.5,
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": "so long"},
        ],
    }


def test_a_refused_turn_is_told_and_forgotten(run, server, capsys):
    server.answers += [(400, {"error": {"message": "too\nlong"}}), deltas("fine")]
    assert run("chat", text="very long\nshort\n") == 0
    out, err = capsys.readouterr()
    assert err == "runtime: HTTP 400: too long\n"
    assert out.split() == ["fine"]
    assert [m["content"] for m in server.seen[1][1]["messages"]] == ["short"]


def test_an_error_within_a_stream_is_told(run, server, capsys):
    server.answers += [(200, [{"choices": [{"text": "a"}]}, {"error": {"message": "it died"}}])]
    assert run("complete", "-q", "x") == 2
    out, err = capsys.readouterr()
    assert out == "a"
    assert err.endswith("error: the server ended the answer: it died\n")


def test_lines_are_continued(run, server, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "env")
    server.answers += [texts(" b", "c"), (503, {"detail": "busy"}), texts("z")]
    words = ("--model-name", "mine", "--stop", "x", "--ignore-eos", "--stop-token-ids", "5", "6")
    assert run("complete", *words, text="a\n \nb\nc\n") == 0
    out, err = capsys.readouterr()
    assert out == " bc\nz\n"
    assert err == "runtime: HTTP 503: busy\n"
    assert server.seen[0] == (
        "/v1/completions",
        {
            "model": "mine",
            "stream": True,
            "prompt": "a",
            "max_tokens": 128,
            "stop": ["x"],
            "stop_token_ids": [5, 6],
            "ignore_eos": True,
        },
        "Bearer env",
    )


def test_a_key_that_is_given_goes_before_the_environments(run, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "env")
    server.answers += [texts("b")]
    assert run("complete", "--api-key", "mine", "--quick", "a") == 0
    assert server.seen[0][2] == "Bearer mine"


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://", "nonsense"])
def test_a_server_that_is_not_there_is_one_line(run, capsys, url):
    assert run("chat", url=url) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert url in err


def test_a_model_of_this_machine_and_a_server_are_one_too_many(run, capsys):
    with pytest.raises(SystemExit) as caught:
        run("chat", "some/model")
    assert caught.value.code == 2
    assert "--model-name" in capsys.readouterr().err
