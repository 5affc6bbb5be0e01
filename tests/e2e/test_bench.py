"""The offline benchmarks on a tiny model, through the command line."""

import json

import pytest

SIZES = ("--skip-tokenizer-init", "--platform", "cpu", "--no-use-tqdm-on-load")


@pytest.fixture
def bench(tiny_model, run_runtime, tmp_path):
    """Run a benchmark: ``bench("latency", …) -> (printed, saved)``."""

    def run(name, *words):
        path = tmp_path / "results.json"
        model = tiny_model("llama")
        done = run_runtime("bench", name, model, *SIZES, "--output-json", path, *words)
        assert done.returncode == 0, done.stderr
        document = json.loads(path.read_text())
        assert document["benchmark"] == name
        assert document["platform"]["name"] == "cpu"
        assert document["arguments"]["skip_tokenizer_init"] is True
        return done.stdout, document["results"]

    return run


def test_latency(bench):
    words = ("--input-len", 9, "--output-len", 5, "--batch-size", 3)
    printed, results = bench("latency", *words, "--num-iters", 3, "--num-iters-warmup", 1)
    assert len(results["latencies_s"]) == 3
    assert 0 < results["median_ttft_ms"] < results["median_latency_ms"]
    assert 0 < results["median_tpot_ms"] < results["median_latency_ms"] / 4
    assert "3 x (9 in, 5 out)" in printed


def test_throughput_of_shared_prefixes_comes_from_the_cache(bench):
    printed, results = bench(
        *("throughput", "--dataset-name", "prefix_repetition", "--num-prompts", 6),
        *("--prefix-repetition-num-prefixes", 1, "--prefix-repetition-prefix-len", 64),
        *("--prefix-repetition-suffix-len", 8, "--output-len", 4),
    )
    assert results["num_requests"] == 6
    assert results["total_input_tokens"] == 6 * 72
    assert results["total_output_tokens"] == 6 * 4
    # The warm-up has computed the prefix.
    assert results["cached_input_tokens"] == 6 * 64
    assert "Output token throughput" in printed


def test_startup(bench):
    printed, results = bench("startup", "--num-iters", 1, "--num-iters-warmup", 0)
    assert 0 < results["median_ready_s"] < results["median_first_token_s"]
    assert results["median_peak_rss_bytes"] > 50 << 20
    assert "Median until ready" in printed


def test_a_batch_above_the_engines_is_refused(tiny_model, run_runtime):
    done = run_runtime(
        *("bench", "latency", tiny_model("llama"), *SIZES, "--batch-size", 9, "--max-num-seqs", 8)
    )
    assert done.returncode == 2
    assert "batch_size=9 is above max_num_seqs=8" in done.stderr.splitlines()[-1]
