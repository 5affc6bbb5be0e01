"""A step that is scheduled while the one before it runs gives the same tokens."""

import pytest

from runtime import SamplingParams


@pytest.fixture(scope="module")
def path(tiny_model):
    return tiny_model("llama")


OPTIONS = {
    "graphs": {},
    "eager": {"enforce_eager": True},
    "chunked": {"max_num_batched_tokens": 16, "max_num_seqs": 4},
    "uncached": {"enable_prefix_caching": False},
    "preempted": {"num_kv_blocks_override": 9, "max_num_seqs": 4, "max_num_batched_tokens": 40},
}


@pytest.mark.parametrize("options", list(OPTIONS))
def test_greedy_equals_transformers(path, load, greedy, reference, ragged, options):
    llm = load(
        path,
        platform="null",
        async_scheduling=True,
        max_model_len=128,
        **{"max_num_seqs": 8, **OPTIONS[options]},
    )
    expected = reference(path, ragged, 30)
    for _ in range(2):
        assert greedy(llm, ragged, 30) == expected
    stats = llm.engine.core.scheduler.stats
    assert options != "preempted" or stats.num_preemptions > 0
    assert llm.engine.core.scheduler.kv_cache.usage == 0.0


@pytest.mark.parametrize(
    "params",
    [
        {"repetition_penalty": 1.3},
        {"temperature": 0.9, "seed": 7, "top_k": 20},
        {"logprobs": 2},
        {"min_tokens": 9, "stop_token_ids": list(range(3, 120))},
        {"presence_penalty": 1.0, "temperature": 0.7, "seed": 3},
        {"stop_token_ids": list(range(3, 60))},
        {"prompt_logprobs": 1},
        {"max_tokens": 1},
    ],
    ids=str,
)
def test_parameters_mean_the_same(path, load, ragged, params):
    requests = [{"prompt_token_ids": prompt} for prompt in ragged]
    every = [
        SamplingParams(**{"temperature": 0, "max_tokens": 20, "ignore_eos": True, **own})
        for own in ([params, {}] * len(ragged))[: len(ragged)]
    ]

    def run(asynchronous):
        llm = load(path, platform="null", async_scheduling=asynchronous, max_num_seqs=8)
        outputs = llm.generate(requests, every, use_tqdm=False)
        return [(o.outputs[0].token_ids, o.outputs[0].finish_reason) for o in outputs]

    assert run(True) == run(False)


def test_an_abandoned_request_leaves_nothing_behind(path, load, greedy, reference, ragged):
    llm = load(path, platform="null", async_scheduling=True, max_num_seqs=8)
    stream = llm.stream({"prompt_token_ids": ragged[4]})
    next(stream)
    stream.close()
    assert greedy(llm, ragged, 12) == reference(path, ragged, 12)
    assert llm.engine.core.scheduler.kv_cache.usage == 0.0
