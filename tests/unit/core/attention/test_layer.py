"""What the attention layer makes of a config."""

from types import SimpleNamespace

import pytest
import torch

from runtime.core.attention.layer import Attention
from runtime.core.errors import ModelLoadError, PlatformError
from runtime.core.forward_context import ForwardContext
from runtime.core.kv_cache.spec import FullAttentionSpec, SlidingWindowSpec
from runtime.core.platform.interface import PlatformCapabilities, PlatformPolicy


@pytest.fixture
def config():
    def make(kv_cache_dtype="auto"):
        platform = SimpleNamespace(
            name="odd", policy=PlatformPolicy(), capabilities=PlatformCapabilities()
        )
        return SimpleNamespace(
            platform=platform,
            model=SimpleNamespace(dtype=torch.bfloat16),
            cache=SimpleNamespace(kv_cache_dtype=kv_cache_dtype, block_size=8),
        )

    return make


def layer(config, heads=4, kv_heads=2, **options):
    return Attention(heads, kv_heads, 32, 0.125, config=config, prefix="a.b", **options)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("auto", torch.bfloat16), ("float16", torch.float16), ("float32", torch.float32)],
)
def test_the_cache_has_the_dtype_that_was_asked_for(config, name, dtype):
    attention = layer(config(name))
    assert attention.spec.kv_cache_dtype == dtype
    page = attention.backend.kv_cache_spec(attention.spec).page_bytes
    assert page == 2 * 8 * 2 * 32 * dtype.itemsize


@pytest.mark.parametrize("name", ["fp7", "nn"])
def test_a_cache_dtype_that_torch_does_not_have_is_refused(config, name):
    with pytest.raises(PlatformError, match=f"kv_cache_dtype='{name}': platform 'odd'"):
        layer(config(name))


def test_a_window_says_what_is_kept(config):
    whole, window = layer(config()), layer(config(), sliding_window=9)
    assert isinstance(whole.backend.kv_cache_spec(whole.spec), FullAttentionSpec)
    assert isinstance(window.backend.kv_cache_spec(window.spec), SlidingWindowSpec)


def test_heads_must_divide(config):
    with pytest.raises(ModelLoadError, match=r"num_attention_heads=4 .* num_key_value_heads=3"):
        layer(config(), 4, 3)


def test_it_finds_its_metadata_by_its_name_and_its_cache_on_itself(config):
    attention = layer(config())
    attention.kv_cache = torch.zeros(1)
    seen = []

    def forward(query, key, value, kv_cache, metadata):
        seen.append((kv_cache, metadata))
        return query

    attention.impl = SimpleNamespace(forward=forward)
    query = torch.randn(3, 4, 32)
    out = attention(query, query, query, ForwardContext({"a.b": "mine", "a.c": "other"}))
    assert torch.equal(out, query.reshape(3, 128))
    assert seen[0][0] is attention.kv_cache
    assert seen[0][1] == "mine"
