"""A tiny model behind real sockets: its server runs on an event loop in a thread."""

import asyncio
import json
import shutil
import socket
import threading
import time

import httpx
import pytest
import uvicorn

from runtime import AsyncLLM
from runtime.core.entrypoints.server.app import build_app
from runtime.core.entrypoints.server.args import ServerArgs
from runtime.core.entrypoints.server.context import ServerContext

TEMPLATE = """{%- for message in messages -%}
{%- if message.role not in ("system", "user", "assistant", "tool") -%}
{{ raise_exception("no role " + message.role + " here") }}
{%- endif -%}
[{{ message.role }}]{{ message.content }}
{%- for call in message.tool_calls or [] -%}
<{{ call.function.name }} {{ call.function.arguments | tojson }}>
{%- endfor -%}
{%- endfor -%}
{%- if tools %}[tools]{% for tool in tools %}{{ tool.function.name }} {% endfor %}{% endif -%}
{%- if add_generation_prompt %}[assistant]{% endif -%}"""

GREEDY = {"temperature": 0, "max_tokens": 8, "ignore_eos": True}


class LiveEngine:
    """An engine, and the servers over it: one a set of arguments, each on a port of its own."""

    def __init__(self, model, **options):
        self.llm = AsyncLLM(
            str(model),
            dtype="float32",
            max_num_seqs=8,
            use_tqdm_on_load=False,
            platform="cpu",
            **options,
        )
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.clients, self.servers = {}, []

    def client(self, **given):
        """A client of a server with these arguments."""
        args = ServerArgs(**{"served_model_name": ("tiny",), **given})
        if args not in self.clients:
            app = build_app(ServerContext.create(self.llm, args))
            listener = socket.create_server(("127.0.0.1", 0))
            # Connections inherit it; asyncio sets it where a socket was made for TCP by name.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            config = uvicorn.Config(app, log_level="error", lifespan="on")
            server = uvicorn.Server(config)
            self.servers.append(server)
            asyncio.run_coroutine_threadsafe(server.serve([listener]), self.loop)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self.clients[args] = httpx.Client(base_url=url, timeout=60)
        return self.clients[args]

    def idle(self, seconds=1.0):
        """Whether nothing runs or is kept within some time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            stats = self.llm.stats
            busy = stats.num_running or stats.num_waiting or stats.kv_cache_usage
            if not busy and not self.llm.num_unfinished_requests:
                return True
            time.sleep(0.01)
        return False

    def close(self):
        for server in self.servers:
            server.should_exit = True
        for client in self.clients.values():
            client.close()

        async def end():
            self.llm.shutdown()
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            if rest:
                await asyncio.wait(rest, timeout=5)

        asyncio.run_coroutine_threadsafe(end(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.loop.close()


@pytest.fixture(scope="session")
def live_engine():
    """The class, for other models."""
    return LiveEngine


@pytest.fixture(scope="session")
def chat_model(byte_model, tmp_path_factory):
    """The byte model with a chat template."""
    folder = tmp_path_factory.mktemp("chat") / "model"
    shutil.copytree(byte_model, folder)
    path = folder / "tokenizer_config.json"
    config = {**json.loads(path.read_text()), "chat_template": TEMPLATE}
    path.write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="session")
def live(chat_model):
    engine = LiveEngine(chat_model, max_model_len=256)
    yield engine
    engine.close()


@pytest.fixture
def client(live):
    """A client; after the test, the server must be as it was."""
    client = live.client()
    before = greedy_text(client)
    yield client
    assert client.get("/v1/models").status_code == 200
    assert greedy_text(client) == before
    assert live.idle(), "a request is still there"


def greedy_text(client):
    answer = client.post("/v1/completions", json={"prompt": "once", **GREEDY})
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["text"]


@pytest.fixture(scope="session")
def events():
    """The JSON events of a stream, checked to end as streams do: ``events(client, path, body)``."""

    def read(client, path, body):
        with client.stream("POST", path, json={**body, "stream": True}) as answer:
            assert answer.status_code == 200, answer.read()
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = [line for line in answer.iter_lines() if line]
        assert all(line.startswith("data: ") for line in lines)
        assert lines[-1] == "data: [DONE]"
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]

    return read
