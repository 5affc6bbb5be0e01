"""The prompt log and the output log: what was asked and what was answered, by request id."""

import logging
import re
import time

import pytest

ID = {"x-request-id": "from-the-client"}


@pytest.fixture
def lines(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("runtime"), "propagate", True)
    caplog.set_level("INFO")

    def read():
        name = "runtime.core.entrypoints.server.request_log"
        return [record.getMessage() for record in caplog.records if record.name == name]

    return read


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body", "shown"),
    [
        ("/v1/completions", {"prompt": "once"}, "prompt='once'"),
        ("/v1/completions", {"prompt": ["once", "twice"]}, "prompt='twice'"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}, "[user]hi"),
        (
            "/v1/messages",
            {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]},
            "[user]hi",
        ),
    ],
)
def test_both_are_told_once_a_prompt(live, lines, path, body, shown, stream):
    client = live.client(enable_log_requests=True, enable_log_outputs=True)
    fields = {"max_tokens": 4, "temperature": 0, "stream": stream}
    answer = client.post(path, json={**body, **fields}, headers=ID)
    assert answer.status_code == 200, answer.text
    assert live.idle()
    count = len(body["prompt"]) if isinstance(body.get("prompt"), list) else 1
    # A stream's end reaches its client before the server is done with it.
    end = time.monotonic() + 2
    while sum(": output" in line for line in lines()) < count and time.monotonic() < end:
        time.sleep(0.01)
    told = lines()
    prompts = [line for line in told if ": prompt" in line]
    outputs = [line for line in told if ": output" in line]
    assert len(prompts) == len(outputs) == count
    assert shown in prompts[-1]
    assert all("from-the-client" in line for line in told)
    assert all(re.search(r"output 0 .* \d tokens, finish_reason", line) for line in outputs)


def test_none_is_told_by_default(client, lines):
    client.post("/v1/completions", json={"prompt": "once", "max_tokens": 1})
    assert lines() == []
