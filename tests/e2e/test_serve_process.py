"""``runtime serve`` as a process: how it starts, answers, ends, and what it leaves behind."""

import contextlib
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

import httpx
import psutil
import pytest

START_SECONDS = 60
END_SECONDS = 10
ENDLESS = {"prompt": [5, 6, 7], "max_tokens": 200, "ignore_eos": True, "temperature": 0}


class Server:
    """A started server: its process, its address, its log."""

    def __init__(self, path, *words, env=None, log):
        self.log_path = log
        self.file = log.open("w")
        options = ["--skip-tokenizer-init", "--no-use-tqdm-on-load", "--dtype", "float32"]
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "runtime", "serve", str(path), "--platform", "cpu"),
                *("--port", "0", *options, "--served-model-name", "tiny", *words),
            ],
            stdout=self.file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
        )

    @property
    def log(self):
        return self.log_path.read_text()

    def wait_for(self, pattern, seconds=START_SECONDS):
        """Wait for a line of the log; the match."""
        end = time.monotonic() + seconds
        while True:
            match = re.search(pattern, self.log)
            if match:
                return match
            assert self.process.poll() is None, self.log
            assert time.monotonic() < end, self.log
            time.sleep(0.02)

    def ready(self):
        """Wait until it serves."""
        self.url = self.wait_for(r"serving tiny at (\S+)").group(1).replace("0.0.0.0", "127.0.0.1")
        self.children = psutil.Process(self.process.pid).children(recursive=True)
        return self

    @property
    def engine(self):
        """The process id of the engine."""
        return int(re.search(r"\(engine (\d+)\)", self.log).group(1))

    def client(self, **options):
        return httpx.Client(base_url=self.url, timeout=30, trust_env=False, **options)

    def end(self, seconds=END_SECONDS):
        """Wait for its end; the exit status. Nothing may be left of it."""
        status = self.process.wait(seconds)
        self.file.close()
        _, alive = psutil.wait_procs(self.children, 5)
        assert alive == []
        assert "leaked" not in self.log
        assert "Traceback" not in self.log, self.log
        return status

    def kill(self):
        """Make sure of the end, whatever the test did."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(10)
        self.file.close()


@pytest.fixture(scope="module")
def path(tiny_model):
    return tiny_model("llama", max_position_embeddings=8192)


@pytest.fixture
def serve(path, tmp_path):
    """Start a server: ``serve(*words, env={}) -> Server``."""
    started = []

    def start(*words, **options):
        log = tmp_path / f"log{len(started)}"
        started.append(Server(path, *words, log=log, **options))
        return started[-1]

    yield start
    for server in started:
        server.kill()


class Stream:
    """A streaming completion in a thread of its own."""

    def __init__(self, server, **fields):
        self.text, self.status, self.error = "", None, None
        self.begun = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(server, fields))
        self._thread.start()
        assert self.begun.wait(20)

    def _read(self, server, fields):
        body = {**ENDLESS, "stream": True, "return_token_ids": True, **fields}
        try:
            with (
                server.client() as client,
                client.stream("POST", "/v1/completions", json=body) as response,
            ):
                self.status = response.status_code
                for line in response.iter_lines():
                    self.text += line + "\n"
                    self.begun.set()
        except httpx.HTTPError as error:
            self.error = error
        finally:
            self.begun.set()

    def end(self, seconds=END_SECONDS):
        self._thread.join(seconds)
        assert not self._thread.is_alive()
        return self.text


def endless_load(server, count=8, max_tokens=8000):
    """Streams that take a while, all under way; minutes, unless it is said."""
    fields = {"max_tokens": max_tokens}
    return [Stream(server, prompt=[[9, index]] * 8, **fields) for index in range(count)]


@pytest.fixture(params=["one process", "two processes"], scope="module")
def count(request):
    """The flags of one process that serves HTTP, or of two."""
    return ("--api-server-count", "2") if request.param == "two processes" else ()


def test_sigterm_ends_streams_and_leaves_nothing(serve, count):
    server = serve(*count).ready()
    streams = endless_load(server)
    server.process.send_signal(signal.SIGTERM)
    assert server.end() == 0
    for stream in streams:
        text = stream.end()
        assert stream.error is None
        assert "[DONE]" in text
    assert any('"finish_reason":"abort"' in stream.text for stream in streams)
    with socket.create_server(("0.0.0.0", httpx.URL(server.url).port)):
        pass
    assert server.log.splitlines()[-1].endswith("shut down")


def test_with_a_timeout_requests_finish_and_new_ones_are_refused(serve, count):
    number = signal.SIGTERM if count else signal.SIGINT
    server = serve("--shutdown-timeout", "30", *count).ready()
    streams = endless_load(server, 16, max_tokens=200)
    with server.client(transport=httpx.HTTPTransport(retries=3)) as client:
        # A terminal, or a service manager, signals all processes at once.
        for process in (server.process, *server.children):
            process.send_signal(number)
        server.wait_for("shutting down", 5)
        refused = client.post("/v1/completions", json=ENDLESS)
        assert refused.status_code == 503
        assert refused.json()["error"]["type"] == "ServiceUnavailableError"
        assert client.get("/health").status_code == 503
        assert client.get("/metrics").status_code == 200
    assert server.end(60) == 0
    for stream in streams:
        text = stream.end()
        assert stream.error is None
        assert text.count('"finish_reason":"length"') == 8
        assert '"finish_reason":"abort"' not in text
        assert "[DONE]" in text


def test_a_second_signal_ends_at_once(serve, count):
    server = serve("--shutdown-timeout", "300", *count).ready()
    streams = endless_load(server)
    server.process.send_signal(signal.SIGTERM)
    server.wait_for("shutting down", 5)
    begin = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.end() == 0
    assert time.monotonic() - begin < 5
    for stream in streams:
        stream.end()


def test_a_dead_engine_is_told_to_clients_and_probes_and_ends_the_server(serve, count):
    server = serve(*count).ready()
    streams = endless_load(server, 2)
    with server.client() as client:
        os.kill(server.engine, signal.SIGKILL)
        end = time.monotonic() + 2
        while (health := client.get("/health")).status_code == 200:
            assert time.monotonic() < end
        assert health.status_code == 503
        assert "SIGKILL" in health.json()["error"]["message"]
        failed = client.post("/v1/completions", json=ENDLESS)
        assert failed.status_code == 503
    assert server.end() == 1
    for stream in streams:
        assert "SIGKILL" in stream.end()
    last = server.log.splitlines()[-1]
    assert last.startswith("runtime: error: the engine's process")
    assert "SIGKILL" in last


def test_sigterm_while_the_model_loads_ends_it(serve):
    server = serve()
    server.wait_for(r"\(engine ")
    server.children = psutil.Process(server.process.pid).children(recursive=True)
    server.process.send_signal(signal.SIGTERM)
    assert server.end() == 0


def test_a_killed_server_takes_its_engine_along(serve, count):
    server = serve(*count).ready()
    server.process.kill()
    assert server.end() == -signal.SIGKILL


def test_a_killed_http_process_ends_the_server_with_the_cause(serve):
    server = serve("--api-server-count", "2").ready()
    os.kill(int(re.search(r"\(server-1 (\d+)\)", server.log).group(1)), signal.SIGKILL)
    assert server.end() == 1
    last = server.log.splitlines()[-1]
    assert re.match(r"runtime: error: the process server-1 .* was killed by SIGKILL", last)


def test_a_port_in_use_is_told_before_anything_is_loaded(serve):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = serve("--port", str(port))
        server.children = []
        assert server.end(30) == 2
    lines = server.log.splitlines()
    assert lines[-1].startswith(f"runtime: error: port {port} of")
    assert "engine" not in server.log


def test_what_the_engine_refuses_is_one_line_and_status_2(serve):
    server = serve("--num-kv-blocks-override", "2")
    server.children = []
    assert server.end(START_SECONDS) == 2
    assert server.log.splitlines()[-1].startswith("runtime: error: max_model_len=")


PLUGIN = """
from fastapi import APIRouter
from runtime.plugins import ServerExtension

class Tokens:
    count = 0
    def record_step(self, stats): ...
    def record_prompt(self, num_tokens, time_to_first_token): ...
    def record_tokens(self, count, inter_token_seconds):
        self.count += count
    def record_finished(self, request): ...

class Stamp:
    def __init__(self, app):
        self.app = app
    async def __call__(self, scope, receive, send):
        async def stamped(message):
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-acme", b"1")]
            await send(message)
        await self.app(scope, receive, stamped)

tokens, router = Tokens(), APIRouter()

@router.get("/acme")
def acme():
    return tokens.count

def extend():
    return ServerExtension([router], [Stamp], [tokens])
"""


@pytest.fixture(scope="module")
def shared(path, count, tmp_path_factory):
    """One server, with a plugin, for the tests that leave it as it was."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "acme_web.py").write_text(PLUGIN)
    info = folder / "acme_web-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-web\nVersion: 1.2\n")
    points = "[runtime.server_plugins]\nweb = acme_web:extend\n"
    (info / "entry_points.txt").write_text(points)
    seen = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    server = Server(
        *(path, "--api-key", "one", "two", "--root-path", "/models/a", "--max-model-len", "200"),
        *(
            *count,
            "--disable-access-log-for-endpoints",
            "/health",
            "--allowed-origins",
            "http://a.test",
        ),
        env={"VLLM_LOG_STATS_INTERVAL": "0.2", "PYTHONPATH": seen},
        log=folder / "log",
    )
    yield server.ready()
    server.process.send_signal(signal.SIGTERM)
    try:
        assert server.end() == 0
    finally:
        server.kill()


KEY = {"authorization": "Bearer two"}


def test_the_log_tells_how_the_server_was_started(shared):
    for expected in (
        r"\(server \d+\) plugin web \(runtime.server_plugins\) of acme-web 1.2, loaded",
        r"\(server \d+\) arguments: .*max_model_len=200.*api_key=\(hidden\)",
        r"\(server \d+\) platform cpu: .*asked for by platform",
        r"\(engine \d+\) loaded LlamaForCausalLM",
        r"\(engine \d+\) KV cache: .* blocks of \d+ tokens; holds [\d.]+ requests of 200 tokens",
        r"\(server(-\d)? \d+\) routes: .*POST /v1/completions",
    ):
        assert re.search(expected, shared.log), expected
    assert "one" not in re.findall(r"api_key=\S+", shared.log)[0]


def test_keys_root_path_request_ids_and_origins(shared):
    with shared.client() as client:
        assert client.post("/v1/completions", json=ENDLESS).status_code == 401
        for path in ("/v1/models", "/models/a/v1/models"):
            assert client.get(path).status_code == 401
            assert client.get(path, headers=KEY).status_code == 200
        response = client.get(
            "/health", headers={"x-request-id": "mine", "origin": "http://a.test"}
        )
        assert response.headers["x-request-id"] == "mine"
        assert response.headers["access-control-allow-origin"] == "http://a.test"
    assert '"GET /v1/models' in shared.log
    assert '"GET /health' not in shared.log


def test_metrics_are_right_to_the_token_and_the_log_has_a_line(shared):
    names = ("prompt_tokens_total", "generation_tokens_total", "request_success_total")

    def counts(client):
        text = client.get("/metrics").text
        return [
            sum(float(value) for value in re.findall(rf"^vllm:{name}{{.*}} (\S+)$", text, re.M))
            for name in names
        ]

    with shared.client(headers=KEY) as client:
        before = counts(client)
        usages = []
        for n, prompt in ((1, [1, 2, 3]), (3, [4, 5]), (1, [[6], [7, 8]])):
            body = {**ENDLESS, "prompt": prompt, "max_tokens": 9, "n": n, "temperature": 1}
            response = client.post("/v1/completions", json=body)
            assert response.status_code == 200, response.text
            usages.append(response.json()["usage"])
        gained = [now - then for now, then in zip(counts(client), before, strict=True)]
    assert gained[0] == sum(usage["prompt_tokens"] for usage in usages)
    assert gained[1] == sum(usage["completion_tokens"] for usage in usages) == 9 * 6
    assert gained[2] == 6
    shared.wait_for(r"\(server \d+\) prompt [\d.]+ tokens/s, generation [\d.]+ tokens/s", 5)


def test_a_plugin_adds_a_route_a_middleware_and_a_stat_logger(shared):
    with shared.client(headers=KEY) as client:
        before = client.get("/acme")
        assert before.headers["x-acme"] == "1"
        response = client.post("/v1/completions", json={**ENDLESS, "max_tokens": 7})
        assert response.headers["x-acme"] == "1"
        assert client.get("/acme").json() - before.json() == 7
        assert "GET /acme" in shared.log


def test_a_client_that_goes_away_frees_its_request(shared):
    with shared.client(headers=KEY) as client:
        body = {**ENDLESS, "stream": True, "n": 2, "max_tokens": 190}
        with client.stream("POST", "/v1/completions", json=body) as response:
            next(response.iter_lines())
        end = time.monotonic() + 1
        while True:
            text = client.get("/metrics").text
            usage = re.search(r"vllm:kv_cache_usage_perc{.*} (\S+)", text).group(1)
            running = re.search(r"vllm:num_requests_running{.*} (\S+)", text).group(1)
            if float(usage) == float(running) == 0:
                break
            assert time.monotonic() < end, text
        assert client.get("/load").json() == {"server_load": 0}


def test_tls_on_a_unix_socket(serve, tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        capture_output=True,
    )
    if made.returncode:
        pytest.skip("needs openssl")
    path = tmp_path / "s"
    tls = ("--ssl-keyfile", str(key), "--ssl-certfile", str(certificate))
    server = serve("--uds", str(path), *tls).ready()
    assert server.url == f"unix:{path}"
    trusted = ssl.create_default_context(cafile=str(certificate))
    for scheme, works in (("https", True), ("http", False)):
        transport = httpx.HTTPTransport(uds=str(path), verify=trusted)
        with httpx.Client(transport=transport) as client:
            if works:
                assert client.get(f"{scheme}://localhost/health").status_code == 200
            else:
                with pytest.raises(httpx.HTTPError):
                    client.get(f"{scheme}://localhost/health")
    server.process.send_signal(signal.SIGTERM)
    assert server.end() == 0
    assert not path.exists()
