"""Frequencies of every scaling equal transformers'."""

import pytest
import torch

from runtime.core.config.hf_config import HFConfig
from runtime.core.errors import ModelLoadError
from runtime.core.layers.rotary import (
    ROPE_TYPES,
    RopeParameters,
    RotaryEmbedding,
    rope_frequencies,
)

transformers = pytest.importorskip("transformers")
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS  # noqa: E402

SCALINGS = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 3.0},
    "yarn": {"factor": 8.0, "original_max_position_embeddings": 64},
    "yarn-beta": {
        "factor": 8.0,
        "original_max_position_embeddings": 64,
        "beta_fast": 16,
        "beta_slow": 2,
        "truncate": False,
    },
    "yarn-mscale": {
        "factor": 40.0,
        "original_max_position_embeddings": 64,
        "mscale": 0.7,
        "mscale_all_dim": 1.0,
    },
    "yarn-attention": {
        "factor": 8.0,
        "original_max_position_embeddings": 64,
        "attention_factor": 0.9,
    },
    "longrope": {
        "short_factor": [1.0 + 0.1 * i for i in range(32)],
        "long_factor": [2.0 + 0.3 * i for i in range(32)],
        "original_max_position_embeddings": 64,
        "factor": 8.0,
    },
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
}


def configs(name, scaling, theta=50_000.0):
    rope_type = name.partition("-")[0]
    values = {
        "hidden_size": 256,
        "num_attention_heads": 4,
        "head_dim": 64,
        "max_position_embeddings": 512,
    }
    parameters = {"rope_type": rope_type, "rope_theta": theta, **scaling}
    theirs = transformers.LlamaConfig(**values, rope_parameters=dict(parameters))
    new = HFConfig({**values, "rope_parameters": parameters})
    old = HFConfig(
        {**values, "rope_theta": theta, "rope_scaling": {"rope_type": rope_type, **scaling}}
    )
    return rope_type, theirs, new, old


@pytest.mark.parametrize("name", list(SCALINGS))
@pytest.mark.parametrize("length", [32, 512])
def test_frequencies_equal_transformers(name, length):
    rope_type, theirs, *ours = configs(name, SCALINGS[name])
    inverse, factor = ROPE_INIT_FUNCTIONS[rope_type](theirs, "cpu", seq_len=length)
    for config in ours:
        got, got_factor = rope_frequencies(RopeParameters.from_config(config, 64), length)
        torch.testing.assert_close(got, inverse, rtol=0, atol=0)
        assert got_factor == pytest.approx(factor, rel=1e-12)


def test_without_scaling():
    config = HFConfig({"rope_theta": 1e6, "partial_rotary_factor": 0.5})
    inverse, factor = rope_frequencies(RopeParameters.from_config(config, 64), 100)
    assert inverse.shape == (16,)
    assert factor == 1.0
    assert inverse[1] == pytest.approx(1e6 ** (-2 / 32))


@pytest.mark.parametrize("name", [n for n in ROPE_TYPES if n != "default" and n != "yarn"])
def test_a_missing_value_is_named(name):
    config = HFConfig({"rope_parameters": {"rope_type": name}, "max_position_embeddings": 64})
    with pytest.raises(ModelLoadError, match="factor"):
        rope_frequencies(RopeParameters.from_config(config, 64), 32)


def test_an_unknown_scaling_is_named_beside_the_known():
    config = HFConfig({"rope_scaling": {"type": "spiral"}})
    with pytest.raises(ModelLoadError, match="'spiral' is unknown.*llama3"):
        rope_frequencies(RopeParameters.from_config(config, 64), 32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["linear", "yarn", "llama3"])
def test_rotation_equals_transformers(platform, config, put, name, dtype):
    from transformers.models.llama import modeling_llama

    _, theirs, ours, _ = configs(name, SCALINGS[name])
    layer = RotaryEmbedding(64, config=config(dtype, 512, **ours))
    positions = torch.tensor([0, 1, 7, 300, 511])
    query, key = torch.randn(5, 4, 64).to(dtype), torch.randn(5, 2, 64).to(dtype)
    got = [platform.memory.copy_to_host(t) for t in layer(put(query), put(key), put(positions))]
    cos, sin = modeling_llama.LlamaRotaryEmbedding(theirs)(query, positions[None])
    heads_first = (query.transpose(0, 1)[None], key.transpose(0, 1)[None])
    expected = modeling_llama.apply_rotary_pos_emb(*heads_first, cos, sin)
    for mine, their in zip(got, expected, strict=True):
        torch.testing.assert_close(mine, their[0].transpose(0, 1), rtol=1e-6, atol=1e-6)


def test_the_rest_of_a_head_is_not_rotated(platform, config, put):
    own = config(partial_rotary_factor=0.25, rope_theta=10000.0)
    layer = RotaryEmbedding(32, config=own)
    assert layer.cos_sin_cache.shape == (64, 8)
    query = torch.randn(3, 2, 32)
    out, _ = layer(put(query), put(query), put(torch.tensor([1, 2, 3])))
    host = platform.memory.copy_to_host(out)
    assert torch.equal(host[..., 8:], query[..., 8:])
    assert not torch.isclose(host[..., :8], query[..., :8]).all(-1).any()
