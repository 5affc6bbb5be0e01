"""Figures of offline runs, from an engine whose times are made by hand."""

import argparse
import random
from types import SimpleNamespace

import pytest

from runtime import CompletionOutput, RequestOutput
from runtime.core.entrypoints.bench import latency, offline, throughput
from runtime.core.entrypoints.bench.datasets import BenchRequest
from runtime.core.entrypoints.bench.prompts import BenchPrompt
from runtime.core.entrypoints.bench.report import lines


class Engine:
    """Stands for ``LLM``: a quarter of a second to the first token, a tenth for each further."""

    def __init__(self):
        self.calls = []
        model = SimpleNamespace(vocab_size=50)
        self.engine = SimpleNamespace(tokenizer=None, config=SimpleNamespace(model=model))

    def generate(self, prompts, params, use_tqdm):
        each = params if isinstance(params, list) else [params] * len(prompts)
        self.calls.append((prompts, each))
        return [
            self.answer(prompt["prompt_token_ids"], own)
            for prompt, own in zip(prompts, each, strict=True)
        ]

    @staticmethod
    def answer(prompt, params):
        count = params.max_tokens
        first = 100.25
        return RequestOutput(
            request_id="0",
            prompt=None,
            prompt_token_ids=prompt,
            outputs=[CompletionOutput(0, "", [1] * count, "length")],
            finished=True,
            num_cached_tokens=2,
            metrics={
                "arrival_time": 100.0,
                "first_token_time": first,
                "finished_time": first + 0.1 * (count - 1),
            },
        )


def test_latency_leaves_the_warm_up_out_and_tells_of_tokens():
    engine = Engine()
    args = argparse.Namespace(
        input_len=7, output_len=5, batch_size=3, num_iters=4, num_iters_warmup=2, seed=0
    )
    results = latency.measure(engine, args)
    assert len(engine.calls) == 6
    prompts, params = engine.calls[0]
    assert [len(prompt["prompt_token_ids"]) for prompt in prompts] == [7, 7, 7]
    assert {(own.max_tokens, own.ignore_eos, own.temperature) for own in params} == {(5, True, 0.0)}
    assert len(results["latencies_s"]) == 4
    assert results["median_ttft_ms"] == pytest.approx(250.0)
    assert results["p99_tpot_ms"] == pytest.approx(100.0)
    labels = dict(latency.rows(results, args))
    assert labels["Batch"] == "3 x (7 in, 5 out)"
    assert labels["Output token throughput (tok/s)"] == pytest.approx(
        15_000 / results["median_latency_ms"]
    )


def test_one_token_of_output_has_no_time_per_token():
    args = argparse.Namespace(
        input_len=2, output_len=1, batch_size=1, num_iters=1, num_iters_warmup=0, seed=0
    )
    results = latency.measure(Engine(), args)
    assert "median_tpot_ms" not in results
    assert "Median time per output token (ms)" not in dict(latency.rows(results, args))


def test_throughput_by_hand():
    engine = Engine()
    requests = [BenchRequest(BenchPrompt(range(10)), 4), BenchRequest(BenchPrompt(range(20)), 6)]
    outputs = throughput.generate(engine, requests, ignore_eos=True, use_tqdm=False)
    assert throughput.summarise(outputs, 4.0) == {
        "elapsed_s": 4.0,
        "num_requests": 2,
        "total_input_tokens": 30,
        "cached_input_tokens": 4,
        "total_output_tokens": 10,
        "requests_per_second": 0.5,
        "tokens_per_second": 10.0,
        "output_tokens_per_second": 2.5,
    }
    assert [own.max_tokens for own in engine.calls[0][1]] == [4, 6]


def test_random_prompts_come_from_the_models_vocabulary():
    prompt = offline.token_prompts(Engine()).make(random.Random(0), 2000)
    assert set(prompt.token_ids) == set(range(50))


def test_figures_are_printed_in_two_columns():
    assert lines([("Requests", 3), ("Rate (tok/s)", 1234.5), ("Name", "a b")], "title") == (
        "======= title ========\n"
        "Requests             3\n"
        "Rate (tok/s)  1,234.50\n"
        "Name               a b"
    )
