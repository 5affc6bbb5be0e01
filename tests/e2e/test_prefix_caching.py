"""Output with and without cached prefixes is identical, and what was cached is told."""

import pytest
import torch

BLOCK = 16


@pytest.fixture(scope="module")
def path(tiny_model):
    return tiny_model("llama")


@pytest.fixture(scope="module")
def plain(load, path):
    return load(path, enable_prefix_caching=False)


@pytest.fixture
def cached(load, path):
    return load(path, block_size=BLOCK, max_model_len=200, num_kv_blocks_override=24)


def prompt(length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, 257, (length,), generator=generator).tolist()


def hits(llm, prompts, max_tokens=1):
    from runtime import SamplingParams

    params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
    outputs = llm.generate([{"prompt_token_ids": p} for p in prompts], params, use_tqdm=False)
    return [o.num_cached_tokens for o in outputs], [o.outputs[0].token_ids for o in outputs]


@pytest.mark.parametrize("length", [BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 1])
def test_the_same_prompt_twice(length, cached, plain):
    first, tokens = hits(cached, [prompt(length)], 24)
    again, more = hits(cached, [prompt(length)], 24)
    assert first == [0]
    assert again == [(length - 1) // BLOCK * BLOCK]
    assert tokens == more == hits(plain, [prompt(length)], 24)[1]


def test_a_shared_head_and_two_tails(cached, plain):
    head = prompt(100)
    prompts = [head + prompt(7, 1), head + prompt(30, 2)]
    told, tokens = hits(cached, prompts, 20)
    assert told == [0, 96], "shared within one step"
    assert tokens == hits(plain, prompts, 20)[1]
    assert hits(cached, prompts[::-1], 20) == ([128, 96], tokens[::-1])


def test_after_evictions(cached, plain):
    prompts = [prompt(120, seed) for seed in range(6)]
    expected = hits(plain, prompts, 20)[1]
    for _ in range(2):
        for own, tokens in zip(prompts, expected, strict=True):
            assert hits(cached, [own], 20)[1] == [tokens]
    stats = cached.engine.core.scheduler.kv_cache.stats
    assert stats.queries == 12 * 120
    assert stats.hits < 6 * 112, "the pool holds no six prompts"


def test_a_salt_keeps_tenants_apart(cached):
    from runtime import SamplingParams

    params = SamplingParams(temperature=0, max_tokens=1)

    def ask(salt):
        request = {"prompt_token_ids": prompt(64), "cache_salt": salt}
        return cached.generate(request, params, use_tqdm=False)[0].num_cached_tokens

    assert [ask("a"), ask("b"), ask("a"), ask("b")] == [0, 0, 48, 48]


def test_n_outputs_share_the_prompt(cached):
    from runtime import SamplingParams

    params = SamplingParams(temperature=1.0, seed=3, n=4, max_tokens=6, ignore_eos=True)
    output = cached.generate({"prompt_token_ids": prompt(65)}, params, use_tqdm=False)[0]
    assert [o.index for o in output.outputs] == [0, 1, 2, 3]
    assert len({tuple(o.token_ids) for o in output.outputs}) > 1
    # One prompt computed whole, three from its fourth block on.
    assert cached.engine.core.scheduler.stats.prompt_tokens == 65 + 3 * 1
    again = cached.generate({"prompt_token_ids": prompt(65)}, params, use_tqdm=False)[0]
    assert [o.token_ids for o in again.outputs] == [o.token_ids for o in output.outputs]


@pytest.mark.parametrize("order", ["AB", "BA"])
def test_prompt_logprobs_do_not_come_from_the_cache(order, cached):
    from runtime import SamplingParams

    prompts = {"A": prompt(33), "B": prompt(33)[:20] + prompt(13, 5)}
    params = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=1)
    seen = {}
    for name in order * 2:
        output = cached.generate({"prompt_token_ids": prompts[name]}, params, use_tqdm=False)[0]
        entries = output.prompt_logprobs
        assert len(entries) == 33
        assert entries[0] is None
        values = [
            entry[token].logprob
            for entry, token in zip(entries[1:], prompts[name][1:], strict=True)
        ]
        assert values == pytest.approx(seen.setdefault(name, values), abs=1e-4)
