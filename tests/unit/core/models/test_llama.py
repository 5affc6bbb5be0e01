"""Llama's and Mistral's logits equal transformers', over prefill, chunks and decode."""

import pytest
import torch

from runtime.core.errors import ModelLoadError
from runtime.platforms.cpu.platform import CpuPlatform
from runtime.platforms.null.platform import NullPlatform

PLATFORMS = {"cpu": CpuPlatform, "null": NullPlatform}
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0 + 0.1 * i for i in range(8)],
    "long_factor": [2.0 + 0.3 * i for i in range(8)],
    "original_max_position_embeddings": 32,
    "factor": 2.0,
}


def rope(rope_type, **values):
    return {"rope_parameters": {"rope_type": rope_type, "rope_theta": 10000.0, **values}}


LLAMA = {
    "gqa": {},
    "mha": {"num_key_value_heads": 4},
    "tied": {"tie_word_embeddings": True},
    "bias": {"attention_bias": True, "mlp_bias": True},
    "head-dim": {"head_dim": 24},
    "linear": rope("linear", factor=4.0),
    "yarn": rope("yarn", factor=4.0, original_max_position_embeddings=16),
    "llama3": rope(
        "llama3",
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=16,
    ),
}
GROWN = {
    "dynamic": rope("dynamic", factor=3.0) | {"max_position_embeddings": 32},
    "longrope": {"rope_parameters": {"rope_theta": 10000.0, **LONGROPE}},
}
"""Scalings whose frequencies follow the sequence's length: ours have those of the longest."""
STEPS = [
    [(0, 0, 20), (1, 0, 1)],
    [(0, 20, 1), (1, 1, 1), (2, 0, 9)],
    [(0, 21, 1), (1, 2, 30), (2, 9, 8)],
    [(0, 22, 1), (1, 32, 1), (2, 17, 1), (3, 0, 64)],
]
LENGTHS = [23, 33, 18, 64]


def sequences(lengths):
    generator = torch.Generator().manual_seed(2)
    return [torch.randint(0, 131, (n,), generator=generator).tolist() for n in lengths]


def check(driver, platform, theirs, steps, lengths):
    architecture = theirs.config.architectures or [type(theirs).__name__]
    ours = driver(PLATFORMS[platform](), architecture[0], theirs.config.to_dict())
    ours.load(theirs.state_dict())
    tokens = sequences(lengths)
    for ids, got in zip(tokens, ours.logits(tokens, steps), strict=True):
        with torch.inference_mode():
            expected = theirs(torch.tensor([ids])).logits[0]
        assert (got - expected).abs().max() < 1e-4
        assert torch.equal(got.argmax(-1), expected.argmax(-1))


@pytest.mark.parametrize("platform", list(PLATFORMS))
@pytest.mark.parametrize("variant", list(LLAMA))
def test_llama(driver, transformers_model, variant, platform):
    check(driver, platform, transformers_model("llama", **LLAMA[variant]), STEPS, LENGTHS)


@pytest.mark.parametrize("variant", list(GROWN))
def test_llama_with_a_scaling_that_grows(driver, transformers_model, variant):
    theirs = transformers_model("llama", **GROWN[variant])
    steps = [[(0, 0, 40)], [(0, 40, 23)], [(0, 63, 1)]]
    check(driver, "cpu", theirs, steps, [64])


@pytest.mark.parametrize("platform", list(PLATFORMS))
@pytest.mark.parametrize("window", [None, 1, 12])
def test_mistral(driver, transformers_model, window, platform):
    theirs = transformers_model("mistral", sliding_window=window)
    check(driver, platform, theirs, STEPS, LENGTHS)


TINY = {
    "vocab_size": 20,
    "hidden_size": 16,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}


@pytest.mark.parametrize("key", list(TINY))
def test_a_missing_key_is_named(driver, key):
    hf = {name: value for name, value in TINY.items() if name != key}
    with pytest.raises(ModelLoadError, match=f"lacks '{key}'"):
        driver(CpuPlatform(), "LlamaForCausalLM", hf)


def test_what_may_be_absent_has_transformers_defaults(driver):
    (attention,) = driver(CpuPlatform(), "LlamaForCausalLM", TINY).attention
    assert (attention.spec.num_kv_heads, attention.spec.head_size) == (2, 8)
    assert attention.spec.sliding_window is None


def test_llama_has_no_window_whatever_the_file_says(driver):
    (attention,) = driver(
        CpuPlatform(), "LlamaForCausalLM", {**TINY, "sliding_window": 4}
    ).attention
    assert attention.spec.sliding_window is None


def test_old_frequencies_and_a_tied_head_are_passed_over(driver):
    tied = driver(CpuPlatform(), "LlamaForCausalLM", {**TINY, "tie_word_embeddings": True}).model
    untied = driver(CpuPlatform(), "LlamaForCausalLM", TINY).model
    old = "model.layers.0.self_attn.rotary_emb.inv_freq"
    assert tied.checkpoint_name(old) is untied.checkpoint_name(old) is None
    assert tied.checkpoint_name("lm_head.weight") is None
    assert untied.checkpoint_name("lm_head.weight") == "lm_head.weight"
