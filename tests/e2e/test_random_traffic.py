"""Requests that come, go and are aborted at random: each gets the tokens that it gets alone."""

import random

import pytest

from runtime import SamplingParams


@pytest.mark.parametrize("kind", ["llama", "mistral"])
@pytest.mark.parametrize("caching", [True, False])
def test_random_traffic(kind, caching, tiny_model, load, greedy):
    window = {"sliding_window": 12} if kind == "mistral" else {}
    path = tiny_model(kind, **window)
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    heads = [[chance.randrange(3, 257) for _ in range(40)] for _ in range(2)]
    prompts = [
        chance.choice(heads)[: chance.randrange(41)]
        + [chance.randrange(3, 257) for _ in range(chance.randrange(1, 20))]
        for _ in range(40)
    ]
    lengths = [chance.randrange(1, 30) for _ in prompts]
    llm = load(
        path,
        platform="null",
        block_size=8,
        max_model_len=96,
        num_kv_blocks_override=20,
        max_num_batched_tokens=32,
        max_num_seqs=6,
        enable_prefix_caching=caching,
    )
    engine, cache = llm.engine, llm.engine.core.scheduler.kv_cache
    waiting, aborted, got = list(range(len(prompts))), set(), {}
    while waiting or engine.has_unfinished_requests:
        while waiting and chance.random() < 0.4:
            index = waiting.pop()
            params = SamplingParams(temperature=0, max_tokens=lengths[index], ignore_eos=True)
            engine.add_request(str(index), {"prompt_token_ids": prompts[index]}, params)
        for output in engine.step():
            got[int(output.request_id)] = output.outputs[0].token_ids
        running = list(engine._trackers)
        if running and chance.random() < 0.1:
            victim = chance.choice(running)
            aborted.add(int(victim))
            engine.abort([victim])
        cache.check()
    assert cache.usage == 0.0, f"seed {seed}"
    finished = [index for index in range(len(prompts)) if index not in aborted]
    assert len(finished) > 15
    alone = load(path)
    for index in finished:
        expected = greedy(alone, [prompts[index]], lengths[index])[0]
        assert got[index] == expected, f"seed {seed}, request {index}"
