"""``runtime run-batch`` as users type it."""

import json

import pytest

CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8, "temperature": 0}
FLAGS = ["--platform", "cpu", "--dtype", "float32", "--max-model-len", "256"]


@pytest.fixture
def run_batch(run_runtime, chat_model, tmp_path):
    def run(*lines, **environment):
        source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
        source.write_text("\n".join(lines))
        files = ["-i", source, "-o", target, "--model", chat_model]
        names = ["--served-model-name", "tiny"]
        done = run_runtime("run-batch", *files, *names, *FLAGS, **environment)
        outputs = [json.loads(line) for line in target.read_text().splitlines()]
        return done, {one["custom_id"]: one for one in outputs}

    return run


def line(custom_id, url, body):
    request = {"custom_id": custom_id, "method": "POST", "url": url, "body": body}
    return json.dumps({**request, "body": {"model": "tiny", **body}})


def test_answers_are_the_servers_and_errors_their_own(run_batch, client):
    done, outputs = run_batch(
        line("chat", "/v1/chat/completions", CHAT),
        "no request",
        line("text", "/v1/completions", {"prompt": "once", "max_tokens": 4, "temperature": 0}),
        line("wrong", "/v1/completions", {"prompt": []}),
        line("other", "/v1/chat/completions", {**CHAT, "model": "other"}),
        VLLM_API_KEY="secret",
    )
    assert done.returncode == 0, done.stderr
    assert "2 answered, 3 failed" in done.stderr
    statuses = {
        name: one["response"]["status_code"] for name, one in outputs.items() if one["response"]
    }
    assert statuses == {"chat": 200, "text": 200, "wrong": 400, "other": 404}
    assert outputs[None]["error"]["message"].startswith("line 2: ")
    served = client.post("/v1/chat/completions", json=CHAT).json()
    got = outputs["chat"]["response"]["body"]
    assert got["choices"][0]["message"] == served["choices"][0]["message"]


def test_nothing_that_could_be_done_is_a_failure(run_batch):
    done, outputs = run_batch("no request")
    assert done.returncode == 1, done.stderr
    assert list(outputs) == [None]


def test_files_that_will_not_do_are_refused_before_the_model_is_loaded(run_runtime, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text("\n\n")
    for given, target, said in (
        (tmp_path / "none", tmp_path / "out", "No such file"),
        (source, tmp_path / "out", "has no requests"),
    ):
        done = run_runtime("run-batch", "-i", given, "-o", target, "--model", "/no/model")
        assert done.returncode == 2
        assert said in done.stderr
    source.write_text("{}")
    for target, said in ((source, "is the input"), (tmp_path / "no" / "o", "No such file")):
        done = run_runtime("run-batch", "-i", source, "-o", target, "--model", "/no/model")
        assert done.returncode == 2
        assert said in done.stderr
    assert source.read_text() == "{}"
