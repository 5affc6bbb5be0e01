import math

import gguf
import numpy as np
import pytest
import torch

from runtime.core.errors import ModelLoadError
from runtime.core.loader.gguf_file import GGUFFile


def _config(path):
    return GGUFFile(path).config


def test_a_llama(make_gguf):
    config = dict(_config(make_gguf()))
    assert config == {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 128,
        "rms_norm_eps": pytest.approx(1e-5),
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "vocab_size": 40,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "dtype": "float32",
    }


def test_a_sliding_window_makes_it_mistral(make_gguf):
    config = _config(make_gguf(keys={"llama.attention.sliding_window": 32}))
    assert config.architectures == ["MistralForCausalLM"]
    assert (config.model_type, config.sliding_window) == ("mistral", 32)


def test_without_a_head_the_embedding_serves(make_gguf):
    assert _config(make_gguf(drop=("lm_head.weight",))).tie_word_embeddings is True


def test_biases_show_in_the_config(make_gguf):
    config = _config(make_gguf(extra={"blk.0.attn_q.bias": np.zeros(64, np.float32)}))
    assert (config.attention_bias, config.mlp_bias) == (True, False)


def test_defaults_of_heads(make_gguf):
    keys = {"llama.rope.dimension_count": None, "llama.attention.head_count_kv": None}
    config = _config(make_gguf(keys=keys))
    assert (config.head_dim, config.num_key_value_heads) == (16, 4)
    keys = {"llama.attention.key_length": 32, "llama.rope.dimension_count": 32}
    assert _config(make_gguf(keys=keys)).head_dim == 32


def test_heads_listed_by_layer(make_gguf):
    key = "llama.attention.head_count_kv"
    assert _config(make_gguf(keys={key: [2, 2]})).num_key_value_heads == 2
    with pytest.raises(ModelLoadError, match=f"{key} differs between layers"):
        _config(make_gguf(keys={key: [2, 4]}))


@pytest.mark.parametrize(
    ("kind", "dtype"), [("F16", "float16"), ("BF16", "bfloat16"), ("Q8_0", None)]
)
def test_stored_dtype(make_gguf, kind, dtype):
    config = _config(make_gguf(quantize=gguf.GGMLQuantizationType[kind]))
    assert config.get("dtype") == dtype


def test_end_tokens(make_gguf):
    keys = {f"tokenizer.ggml.{k}_token_id": v for k, v in {"bos": 1, "eos": 2, "eot": 7}.items()}
    checkpoint = GGUFFile(make_gguf(keys=keys))
    assert checkpoint.config.eos_token_id == 2
    assert dict(checkpoint.generation_config) == {"bos_token_id": 1, "eos_token_id": [2, 7]}


def test_what_is_missing_is_named(make_gguf):
    for key in ("llama.embedding_length", "llama.attention.layer_norm_rms_epsilon"):
        with pytest.raises(ModelLoadError, match=f"has no {key}$"):
            _config(make_gguf(keys={key: None}))


def test_an_unknown_architecture_lists_the_known(make_gguf):
    with pytest.raises(ModelLoadError, match=r"'rwkv6' is not supported \(known: .*llama"):
        _config(make_gguf(arch="rwkv6"))


def test_what_the_config_has_no_words_for(make_gguf):
    with pytest.raises(ModelLoadError, match=r"a mixture of experts \(llama\.expert_count = 8\)"):
        _config(make_gguf(keys={"llama.expert_count": 8}))
    keys = {"llama.rope.dimension_count": 8, "llama.attention.key_length": 16}
    with pytest.raises(ModelLoadError, match="dimension_count is 8, but heads have 16"):
        _config(make_gguf(keys=keys))
    with pytest.raises(ModelLoadError, match=r"rope\.scaling\.type 'spiral' is not supported"):
        _config(make_gguf(keys={"llama.rope.scaling.type": "spiral"}))


def test_linear_scaling(make_gguf):
    keys = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    expected = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
    assert _config(make_gguf(keys=keys)).rope_parameters == expected
    assert _config(make_gguf(keys={"llama.rope.scale_linear": 4.0})).rope_parameters == expected


def test_yarn_scaling(make_gguf):
    keys = {
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 4.0,
        "llama.rope.scaling.original_context_length": 32,
    }
    expected = {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32,
        "rope_theta": 10000.0,
    }
    assert _config(make_gguf(keys=keys)).rope_parameters == expected
    keys["llama.rope.scaling.attn_factor"] = 2.0
    factor = _config(make_gguf(keys=keys)).rope_parameters["attention_factor"]
    assert factor == pytest.approx(2 * (1 + 0.1 * math.log(4)))


def test_rope_factors_mean_what_llama3_scaling_means(make_gguf):
    transformers = pytest.importorskip("transformers")
    rotary = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding
    llama3 = {
        "rope_type": "llama3",
        "rope_theta": 10000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    shape = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 128}
    scaled = rotary(transformers.LlamaConfig(**shape, rope_parameters=llama3))
    plain = rotary(transformers.LlamaConfig(**shape))
    factors = (plain.inv_freq / scaled.inv_freq).numpy()
    assert factors.max() == 8.0
    assert factors.min() == 1.0

    path = make_gguf(extra={"rope_freqs.weight": factors})
    config = transformers.LlamaConfig(**_config(path))
    positions, x = torch.arange(128)[None], torch.zeros(1)
    for ours, theirs in zip(rotary(config)(x, positions), scaled(x, positions), strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=0)
    assert "rope_freqs.weight" not in GGUFFile(path).names()
