"""Float32 greedy output equals transformers', token for token, alone and in any batch."""

import pytest

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
VARIANTS = {
    "llama-gqa": ("llama", {}),
    "llama-mha": ("llama", {"num_key_value_heads": 4}),
    "llama-mqa": ("llama", {"num_key_value_heads": 1}),
    "llama-tied": ("llama", {"tie_word_embeddings": True}),
    "llama-bias": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-head-dim": ("llama", {"head_dim": 24}),
    "llama-rope-linear": ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    "llama-rope-yarn": (
        "llama",
        {
            "rope_scaling": {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        },
    ),
    "llama-rope-llama3": ("llama", {"rope_scaling": LLAMA3_ROPE}),
    "mistral": ("mistral", {"sliding_window": None}),
    "mistral-window": ("mistral", {"sliding_window": 12}),
    "mistral-window-tied": ("mistral", {"sliding_window": 16, "tie_word_embeddings": True}),
}


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_greedy_equals_transformers(variant, tiny_model, reference, load, greedy, ragged):
    kind, overrides = VARIANTS[variant]
    path = tiny_model(kind, **overrides)
    expected = reference(path, ragged, 64)
    llm = load(path)
    assert greedy(llm, ragged, 64) == expected, "batched"
    assert [greedy(llm, [prompt], 64)[0] for prompt in ragged] == expected, "alone"


@pytest.mark.parametrize(
    "options",
    [
        {"max_num_batched_tokens": 16, "max_num_seqs": 4},
        {"block_size": 4, "max_num_batched_tokens": 40},
        {"block_size": 64, "enable_prefix_caching": False},
        {"num_kv_blocks_override": 18, "block_size": 16, "enable_prefix_caching": False},
        {"num_kv_blocks_override": 40, "block_size": 8},
    ],
    ids=["chunked", "small-blocks", "large-blocks", "preempted", "preempted-cached"],
)
@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_how_it_is_scheduled_changes_no_token(
    kind, options, tiny_model, reference, load, greedy, ragged
):
    path = tiny_model(kind, **({"sliding_window": 12} if kind == "mistral" else {}))
    expected = reference(path, ragged, 64)
    llm = load(path, max_model_len=128, **options)
    assert greedy(llm, ragged, 64) == expected
    stats = llm.engine.core.scheduler.stats
    preempts = "num_kv_blocks_override" in options and kind == "llama"
    assert not preempts or stats.num_preemptions > 0
    assert llm.engine.core.scheduler.kv_cache.usage == 0.0


def test_the_null_platform_gives_the_same_tokens(tiny_model, reference, load, greedy, ragged):
    path = tiny_model("llama")
    expected = reference(path, ragged, 16)
    llm = load(path, platform="null")
    assert greedy(llm, ragged, 16) == expected


def test_two_engines_on_two_platforms_in_one_process(tiny_model, load, greedy, ragged):
    path = tiny_model("llama")
    one, other = load(path, platform="cpu"), load(path, platform="null")
    requests = [{"prompt_token_ids": prompt} for prompt in ragged]
    assert one.engine.config.platform.name == "cpu"
    assert other.engine.config.platform.name == "null"
    streams = [llm.stream(requests[3]) for llm in (one, other)]
    texts = [[], []]
    for pair in zip(*streams, strict=True):  # steps of the two engines alternate
        for tokens, output in zip(texts, pair, strict=True):
            tokens.append(len(output.outputs[0].token_ids))
    assert texts[0] == texts[1] == list(range(1, 17))
    assert greedy(one, ragged, 8) == greedy(other, ragged, 8)
