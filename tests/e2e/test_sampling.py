"""One request's parameters never change another's tokens, and no value harms the engine."""

import math

import pytest

from runtime import SamplingParams
from runtime.core.errors import RequestError


@pytest.fixture(scope="module")
def llm(tiny_model, load):
    return load(tiny_model("llama"), max_logprobs=-1)


@pytest.fixture
def ask(llm):
    """Run requests together: ``ask((prompt, params), …) -> completion outputs``."""

    def run(*requests):
        outputs = llm.generate(
            [{"prompt_token_ids": prompt} for prompt, _ in requests],
            [SamplingParams(**{"max_tokens": 24, "ignore_eos": True, **p}) for _, p in requests],
            use_tqdm=False,
        )
        return [output.outputs[0] for output in outputs]

    return run


A, B = [5, 9, 200, 31], [77, 77, 77, 8, 8, 3]
GREEDY = {"temperature": 0}
OTHERS = {
    "repetition": {"temperature": 0, "repetition_penalty": 1.8},
    "presence": {"temperature": 0, "presence_penalty": 2.0},
    "frequency": {"temperature": 0, "frequency_penalty": 2.0},
    "bias": {"temperature": 0, "logit_bias": {17: 100}},
    "allowed": {"temperature": 0, "allowed_token_ids": [4, 5, 6]},
    "random": {"temperature": 2.0, "top_k": 20, "top_p": 0.9, "min_p": 0.01},
    "bad-words-and-min": {"temperature": 0, "min_tokens": 24, "ignore_eos": False},
    "logprobs": {"temperature": 0, "logprobs": 5, "prompt_logprobs": 3},
}


@pytest.mark.parametrize("other", list(OTHERS))
def test_greedy_beside_another(ask, other):
    alone = ask((A, GREEDY))[0].token_ids
    first, _ = ask((A, GREEDY), (B, OTHERS[other]))
    _, second = ask((B, OTHERS[other]), (A, GREEDY))
    assert first.token_ids == alone
    assert second.token_ids == alone


@pytest.mark.parametrize("other", [o for o in OTHERS if o != "random"])
def test_the_other_is_not_changed_either(ask, other):
    alone = ask((B, OTHERS[other]))[0].token_ids
    assert ask((A, GREEDY), (B, OTHERS[other]))[1].token_ids == alone


def test_seeded_beside_unseeded(ask):
    seeded, hot = {"temperature": 1.0, "seed": 42}, {"temperature": 1.0}
    alone = ask((A, seeded))[0].token_ids
    free = set()
    for _ in range(4):
        first, second = ask((A, seeded), (B, hot))
        assert first.token_ids == alone
        free.add(tuple(second.token_ids))
    assert len(free) == 4
    assert ask((A, {"temperature": 1.0, "seed": 43}))[0].token_ids != alone


def test_a_seeded_request_survives_preemption(tiny_model, load, llm, ask):
    tight = load(tiny_model("llama"), block_size=8, num_kv_blocks_override=8, max_model_len=64)
    params = SamplingParams(temperature=1.0, seed=7, max_tokens=40, ignore_eos=True)
    prompts = [{"prompt_token_ids": [n, n + 1, n + 2]} for n in range(3, 9)]
    roomy = llm.generate(prompts, params, use_tqdm=False)
    squeezed = tight.generate(prompts, params, use_tqdm=False)
    assert tight.engine.core.scheduler.stats.num_preemptions > 0
    assert [o.outputs[0].token_ids for o in squeezed] == [o.outputs[0].token_ids for o in roomy]


def transformers_tokens(reference, path, **kwargs):
    return reference(path, [B], 24, **kwargs)[0]


def test_penalties_and_masks_equal_transformers(ask, tiny_model, reference):
    path = tiny_model("llama")
    got = ask((B, {"temperature": 0, "repetition_penalty": 1.8}))[0].token_ids
    assert got == transformers_tokens(reference, path, repetition_penalty=1.8)
    plain = ask((B, GREEDY))[0].token_ids
    banned = [[plain[2]], plain[5:7]]
    # transformers bans by token sequences as the engine does by words.
    expected = transformers_tokens(reference, path, bad_words_ids=banned)
    assert expected != plain


HAZARDS = {
    "bias outside the vocabulary": {"logit_bias": {999_999: -100}},
    "negative stop token": {"stop_token_ids": [-1], "min_tokens": 1},
    "huge stop token": {"stop_token_ids": [10**9], "min_tokens": 1},
    "fractional top_k": {"top_k": 0.01},
    "bias with a word": {"logit_bias": {"AI": -100}},
    "bias too large": {"logit_bias": {5: 1e9}},
}


@pytest.mark.parametrize("name", list(HAZARDS))
def test_a_refused_request_changes_nothing(llm, ask, name):
    before = ask((A, GREEDY))[0].token_ids
    with pytest.raises(RequestError, match=next(iter(HAZARDS[name]))):
        ask((A, HAZARDS[name]))
    assert not llm.engine.has_unfinished_requests
    assert ask((A, GREEDY))[0].token_ids == before


@pytest.mark.parametrize("length", [1, 255])
def test_repetition_penalty_at_the_edges_of_the_context(ask, length):
    prompt = [3 + i % 250 for i in range(length)]
    output = ask((prompt, {"temperature": 0, "repetition_penalty": 1.3}))[0]
    assert len(output.token_ids) == min(24, 256 - length)


def test_a_window_that_ends_ends_the_output(ask):
    prompt = [3 + i % 250 for i in range(236)]
    output = ask((prompt, {"temperature": 0, "max_tokens": None}))[0]
    assert output.finish_reason == "length"
    assert len(output.token_ids) == 20


def test_min_tokens_holds_every_end_of_sequence_back(ask):
    greedy = ask((A, GREEDY))[0].token_ids
    stop = greedy[1]
    early = ask((A, {"temperature": 0, "stop_token_ids": [stop]}))[0]
    assert early.stop_reason == stop
    assert early.token_ids == greedy[: greedy.index(stop) + 1]
    late = ask((A, {"temperature": 0, "stop_token_ids": [stop], "min_tokens": 12}))[0]
    assert len(late.token_ids) >= 12
    assert stop not in late.token_ids[:12]


@pytest.mark.parametrize("given", [{"top_k": 1}, {"allowed_token_ids": [7]}, {"min_p": 1.0}])
def test_logprobs_are_finite(ask, given):
    output = ask((A, {"temperature": 1.0, "logprobs": -1, "prompt_logprobs": -1, **given}))[0]
    values = [entry.logprob for position in output.logprobs for entry in position.values()]
    assert len(values) == 24 * 257
    assert all(math.isfinite(value) for value in values)


def test_prompt_logprobs_equal_transformers(llm, tiny_model):
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(
        tiny_model("llama"), dtype=torch.float32
    )
    prompt = [3 + (7 * i) % 250 for i in range(100)]
    params = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=2, logprobs=0)
    output = llm.generate({"prompt_token_ids": prompt}, params, use_tqdm=False)[0]
    with torch.inference_mode():
        expected = model(torch.tensor([prompt])).logits[0].log_softmax(-1)
    for position, entry in enumerate(output.prompt_logprobs[1:]):
        token = prompt[position + 1]
        assert next(iter(entry)) == token
        assert entry[token].logprob == pytest.approx(float(expected[position, token]), abs=1e-4)
        best = int(expected[position].argmax())
        assert entry[best].rank == 1
        assert len(entry) in (2, 3)
    last = output.outputs[0]
    assert last.cumulative_logprob == pytest.approx(float(expected[-1].max()), abs=1e-4)


def test_max_tokens_zero_scores_the_prompt(llm):
    params = SamplingParams(max_tokens=0, prompt_logprobs=0)
    output = llm.generate({"prompt_token_ids": A}, params, use_tqdm=False)[0]
    assert output.outputs[0].token_ids == []
    assert output.outputs[0].finish_reason == "length"
    assert len(output.prompt_logprobs) == len(A)
