"""``runtime bench serve`` against a server that does as it is told."""

import importlib.util
import json

import pytest

from runtime.core.entrypoints.cli.main import main
from runtime.core.tokenizer.load import tokenizer_at


def answer(path, body):
    """List a model, or stream as many tokens as asked for, a millisecond apart."""
    if path == "/v1/models":
        return 200, [b'{"data": [{"id": "served"}]}']
    count = body["max_tokens"]
    if "messages" in body:
        choices = [{"delta": {"role": "assistant", "content": ""}}]
        choices += [{"delta": {"content": "x"}}] * count
        prompt = 20
    else:
        choices, prompt = [{"text": "x"}] * count, len(body["prompt"])
    pieces = []
    for choice in choices:
        pieces += [{"choices": [choice]}, 0.001]
    usage = {"prompt_tokens": prompt, "completion_tokens": count}
    return 200, [*pieces, {"choices": [], "usage": usage}, "[DONE]"]


@pytest.fixture
def bench(server, tokenizer_folder, tmp_path):
    """Run the command: ``bench("--num-prompts", 3) -> (status, saved results)``."""
    server.answer = answer

    def run(*words):
        path = tmp_path / "out" / "results.json"
        base = ["--base-url", server.url, "--tokenizer", tokenizer_folder, "--output-json", path]
        sizes = ["--input-len", 6, "--output-len", 4, "--disable-tqdm"]
        status = main([str(word) for word in ["bench", "serve", *base, *sizes, *words]])
        return status, json.loads(path.read_text()) if path.exists() else None

    return run


def test_completions_are_measured_and_saved(bench, server, capsys):
    status, document = bench("--num-prompts", 5, "--num-warmups", 2)
    assert status == 0
    bodies = server.completion_bodies()
    assert len(bodies) == 7
    assert {body["model"] for body in bodies} == {"served"}
    assert {len(body["prompt"]) for body in bodies} == {6}
    assert len({tuple(body["prompt"]) for body in bodies}) == 7
    assert not any("ignore_eos" in body for body in bodies)
    results = document["results"]
    assert (results["completed"], results["failed"], results["first_error"]) == (5, 0, None)
    assert (results["total_input_tokens"], results["total_output_tokens"]) == (30, 20)
    assert results["output_throughput"] == pytest.approx(20 / results["duration_s"])
    for metric in ("ttft", "tpot", "itl", "e2el"):
        for name in ("mean", "median", "std", "p90", "p99"):
            assert results[f"{name}_{metric}_ms"] >= 0
        assert results[f"p99_{metric}_ms"] >= results[f"median_{metric}_ms"]
    assert document["benchmark"] == "serve"
    assert document["arguments"]["num_prompts"] == 5
    assert document["arguments"]["request_rate"] == "inf"
    assert document["versions"]["httpx"]
    assert document["host"]["cores"] > 0
    printed = capsys.readouterr().out
    assert "Successful requests" in printed
    assert "Time to first token, p99 (ms)" in printed
    assert "First error" not in printed


def test_chats_are_text_of_the_asked_length(bench, server, tokenizer_folder):
    status, document = bench("--num-prompts", 3, "--backend", "openai-chat", "--ignore-eos")
    assert status == 0
    tokenizer = tokenizer_at(str(tokenizer_folder))
    for body in server.completion_bodies():
        (message,) = body["messages"]
        assert len(tokenizer.encode(message["content"], add_special_tokens=False)) == 6
        assert body["ignore_eos"] is True
    # What the server computed, its template included.
    assert document["results"]["total_input_tokens"] == 60


def test_text_prompts_include_special_tokens(bench, server, tokenizer_folder):
    bench("--num-prompts", 2, "--text-prompts")
    tokenizer = tokenizer_at(str(tokenizer_folder))
    lengths = {len(tokenizer.encode(body["prompt"])) for body in server.completion_bodies()}
    assert lengths == {6}


@pytest.mark.parametrize("limit", [1, 3])
def test_concurrency_is_limited(bench, server, limit):
    bench("--num-prompts", 9, "--max-concurrency", limit)
    assert server.busiest == limit


def test_the_rate_sets_the_duration(bench):
    status, document = bench("--num-prompts", 11, "--request-rate", 50, "--burstiness", 1000)
    assert status == 0
    assert 0.19 <= document["results"]["duration_s"] < 2


def test_an_endpoint_a_model_and_a_versioned_url(bench, server):
    bench("--num-prompts", 1, "--base-url", f"{server.url}/v1/", "--endpoint", "/other")
    assert server.asked[-1][0] == "/other"
    bench("--num-prompts", 1, "--model", "mine", "--extra-body", '{"top_k": 3}')
    assert server.asked[-1][1]["model"] == "mine"
    assert server.asked[-1][1]["top_k"] == 3


def test_percentiles_are_those_asked_for(bench):
    words = ("--percentile-metrics", "ttft,e2el", "--metric-percentiles", "25,99.9")
    _, document = bench("--num-prompts", 2, *words)
    keys = {key for key in document["results"] if key.endswith("_ms")}
    names = ("mean", "median", "std", "p25", "p99.9")
    assert keys == {f"{name}_{metric}_ms" for name in names for metric in ("ttft", "e2el")}


def test_single_requests_are_saved_on_demand(bench):
    _, document = bench("--num-prompts", 2, "--save-detailed")
    assert [len(one["itl_s"]) for one in document["requests"]] == [3, 3]
    assert "requests" not in bench("--num-prompts", 2)[1]


def test_results_are_saved_under_a_name(bench, tmp_path):
    bench("--num-prompts", 1, "--save-result", "--result-dir", tmp_path / "r")
    (path,) = (tmp_path / "r").iterdir()
    assert path.name.startswith("openai-infqps-")
    bench("--num-prompts", 1, "--save-result", "--result-dir", tmp_path, "--result-filename", "a")
    assert json.loads((tmp_path / "a").read_text())["results"]["completed"] == 1


def failing(first, count):
    """Answer all but ``count`` requests from the one of index ``first``."""
    served = []

    def reply(path, body):
        if body is not None:
            served.append(body)
            if first < len(served) <= first + count:
                return 503, [f"overloaded {len(served)}".encode()]
        return answer(path, body)

    return reply


def test_failed_requests_are_counted_and_the_first_is_shown(bench, server, capsys):
    server.answer = failing(3, 2)
    status, document = bench("--num-prompts", 6, "--max-concurrency", 1)
    assert status == 1
    results = document["results"]
    assert (results["completed"], results["failed"]) == (4, 2)
    assert results["total_output_tokens"] == 16
    assert results["first_error"] == "HTTP 503: overloaded 4"
    assert "HTTP 503: overloaded 4" in capsys.readouterr().out


def error_of(capsys):
    """The one line of an error."""
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("runtime: error: ")


def test_all_failed_is_an_error(bench, server, capsys):
    server.answer = failing(1, 99)
    assert bench("--num-prompts", 3, "--max-concurrency", 1) == (2, None)
    assert error_of(capsys) == "all 3 requests failed; the first: HTTP 503: overloaded 2"


def test_a_failed_warm_up_ends_it(bench, server, capsys):
    server.answer = failing(0, 99)
    assert bench("--num-prompts", 3) == (2, None)
    told = error_of(capsys)
    assert told.startswith(f"the warm-up request to {server.url}/v1/completions failed")
    assert told.endswith(": HTTP 503: overloaded 1")
    assert "--text-prompts" in told
    assert bench("--num-prompts", 3, "--text-prompts") == (2, None)
    assert "--text-prompts" not in error_of(capsys)


def test_an_unreachable_url_is_one_line(bench, server, capsys):
    server.server_close()
    assert bench("--num-prompts", 3)[0] == 2
    assert error_of(capsys).startswith(f"{server.url}/v1/models: ConnectError: ")


def test_credentials_of_a_url_are_not_shown(bench, server, capsys):
    server.answer = lambda *_: (404, [])
    address = server.url.removeprefix("http://")
    assert bench("--base-url", f"http://me:secret@{address}")[0] == 2
    assert "secret" not in capsys.readouterr().err
    server.answer = answer
    _, document = bench("--num-prompts", 1, "--base-url", f"http://me:secret@{address}")
    assert "secret" not in json.dumps(document)


def test_httpx_is_named_where_it_lacks(bench, monkeypatch, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "httpx" else find(name)
    )
    assert bench("--num-prompts", 1) == (2, None)
    assert error_of(capsys) == "runtime bench serve needs httpx: pip install 'runtime[bench]'"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--request-rate", 0), "request_rate=0 must be above 0; inf sends all at once"),
        (("--burstiness", 0), "burstiness=0 must be above 0 and finite"),
        (("--max-concurrency", 0), "max_concurrency=0 must be at least 1"),
        (("--tokenizer", "/nowhere"), "tokenizer='/nowhere': no such path"),
        (("--dataset-name", "sharegpt", "--input-len", 3), "input_len is not for the sharegpt"),
    ],
)
def test_bad_values_are_one_line(bench, server, capsys, words, message):
    assert bench(*words) == (2, None)
    assert message in error_of(capsys)
    assert server.asked == []


def test_a_tokenizer_is_asked_for(server, capsys):
    assert main(["bench", "serve", "--base-url", server.url, "--model", "remote/name"]) == 2
    assert error_of(capsys).startswith("the random dataset needs the server's tokenizer: ")


def test_results_that_cannot_be_written_are_told(bench, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert bench("--num-prompts", 1, "--output-json", tmp_path / "file" / "x.json")[0] == 2
    assert "cannot write the results" in error_of(capsys)
