"""From what the user asked to the one configuration."""

import dataclasses
import pickle
from types import SimpleNamespace

import pytest
import torch

from runtime.core.config.args import EngineArgs
from runtime.core.config.hf_config import HFConfig
from runtime.core.config.resolve import resolve_config, resolve_quantization
from runtime.core.errors import ConfigError, ModelLoadError
from runtime.core.platform.interface import PlatformCapabilities, PlatformPolicy
from runtime.platforms.null.platform import NullPlatform

HF = {"architectures": ["LlamaForCausalLM"], "vocab_size": 100, "max_position_embeddings": 512}


class Overriding(PlatformPolicy):
    def __init__(self, overrides):
        self.overrides = overrides

    def config_overrides(self, config):
        return self.overrides


class Modest(NullPlatform):
    """A platform with few abilities, and opinions."""

    capabilities = PlatformCapabilities(
        dtypes=("float16", "float32"), kv_block_size=32, kv_block_sizes=(32, 64)
    )
    policy = Overriding({"scheduler.max_num_seqs": 4, "cache.block_size": 64})


def resolve(platform=None, hf=None, **given):
    args = EngineArgs(model="m", **given)
    return resolve_config(args, platform or NullPlatform(), checkpoint(hf))


def checkpoint(hf=None, blocks=()):
    return SimpleNamespace(
        path="m",
        config=HFConfig({**HF, **(hf or {})}),
        generation_config=HFConfig({}),
        block_formats=lambda: dict(blocks),
    )


def test_defaults():
    config = resolve()
    assert config.model.max_model_len == 512
    assert config.model.dtype == torch.float32
    assert config.cache.block_size == 16
    assert config.cache.enable_prefix_caching
    assert config.scheduler.max_num_batched_tokens == 2048


@pytest.mark.parametrize(
    ("stored", "expected"),
    [("float32", "float32"), ("float16", "float16"), ("bfloat16", "float16"), (None, "float32")],
)
def test_auto_dtype_is_the_checkpoints_or_the_platforms_first(stored, expected):
    config = resolve(Modest(), {"dtype": stored})
    assert config.model.dtype == getattr(torch, expected)


def test_a_policy_overrides_only_what_the_user_left_unset():
    config = resolve(Modest(), block_size=32)
    assert config.scheduler.max_num_seqs == 4
    assert config.cache.block_size == 32
    assert resolve(Modest()).cache.block_size == 64


def test_a_policy_may_not_override_everything():
    class Greedy(NullPlatform):
        policy = Overriding({"model.vocab_size": 1})

    with pytest.raises(ConfigError, match="overrides 'model.vocab_size', which no platform may"):
        resolve(Greedy())


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"dtype": "bfloat16"}, "dtype"),
        ({"block_size": 16}, "block_size"),
        ({"max_model_len": -1}, "max_model_len"),
        ({"max_model_len": True}, "max_model_len"),
        ({"max_model_len": 1024}, "max_model_len"),
        ({"num_kv_blocks_override": 0}, "num_kv_blocks_override"),
        ({"num_kv_blocks_override": 5, "num_gpu_blocks_override": 6}, "num_gpu_blocks_override"),
        ({"memory_utilization": 0}, "memory_utilization=0 must be above 0"),
        ({"memory_utilization": 1.1}, "memory_utilization"),
        ({"gpu_memory_utilization": float("nan")}, "memory_utilization"),
        ({"memory_utilization": 0.5, "gpu_memory_utilization": 0.6}, "they are one setting"),
        ({"scheduling_policy": "lifo"}, "scheduling_policy"),
        ({"enable_chunked_prefill": False, "max_num_batched_tokens": 256}, "chunked"),
        ({"tensor_parallel_size": 2}, "tensor_parallel_size"),
        ({"device_id": -1}, "device_id"),
    ],
)
def test_what_cannot_be_is_refused_by_name(given, name):
    with pytest.raises(ConfigError, match=name):
        resolve(Modest(), **given)


def test_a_platform_checks_and_completes_its_own_settings():
    class Tuned(PlatformPolicy):
        def additional_config(self, values):
            if set(values) - {"tiles"}:
                raise ConfigError(f"additional_config: null has no setting {sorted(values)[0]!r}")
            return {"tiles": 4, "depth": 2, **values}

    class Adjustable(NullPlatform):
        policy = Tuned()

    config = resolve(Adjustable(), additional_config={"null": {"tiles": 8}, "other": {"x": 1}})
    assert config.additional_config["null"] == {"tiles": 8, "depth": 2}
    assert config.additional_config["other"] == {"x": 1}
    assert resolve(Adjustable()).additional_config["null"]["tiles"] == 4
    with pytest.raises(ConfigError, match="no setting 'colour'"):
        resolve(Adjustable(), additional_config={"null": {"colour": 1}})
    with pytest.raises(ConfigError, match="no setting 'colour'"):
        resolve(additional_config={"null": {"colour": 1}})
    with pytest.raises(ConfigError, match="must map names to values"):
        resolve(additional_config={"null": 3})


def test_an_unknown_architecture_is_refused():
    with pytest.raises(ModelLoadError, match="PolkaDot"):
        resolve(hf={"architectures": ["PolkaDot"]})


def test_without_chunked_prefill_a_step_holds_the_longest_prompt():
    config = resolve(hf={"max_position_embeddings": 9000}, enable_chunked_prefill=False)
    assert config.scheduler.max_num_batched_tokens == 9000


def test_a_configuration_is_frozen_and_pickles():
    config = resolve(additional_config={"mine": {"a": 1}})
    with pytest.raises(AttributeError):
        config.model.seed = 3
    with pytest.raises(TypeError):
        config.additional_config["mine"] = 2
    with pytest.raises(AttributeError):
        config.model.hf.vocab_size = 5
    again = pickle.loads(pickle.dumps(config))
    assert again.model == config.model
    assert again.additional_config == {"mine": {"a": 1}}
    assert again.platform.name == "null"


class WithBlocks(PlatformPolicy):
    def linear_scheme(self, method):
        return "some.package:Scheme" if method == "blocks" else None


class BlockPlatform(NullPlatform):
    policy = WithBlocks()


STORED = {"model.layers.0.mlp.up_proj.weight": "q4_K"}


def quantization(asked, platform, blocks=(), hf=None):
    return resolve_quantization(asked, platform, checkpoint(hf, blocks))


def test_stored_blocks_stay_where_the_platform_computes_with_them():
    assert quantization(None, BlockPlatform(), STORED).stored == STORED
    assert quantization(None, NullPlatform(), STORED) is None
    assert quantization("none", BlockPlatform(), STORED) is None
    assert quantization("gguf", NullPlatform(), STORED).stored == STORED
    assert quantization(None, BlockPlatform()) is None


def test_a_format_that_is_asked_for_is_for_all_but_the_vocabulary():
    found = quantization("q4_0", NullPlatform(), STORED)
    assert found.format_of("model.layers.0.mlp.up_proj.weight") == "q4_0"
    assert found.for_vocabulary().format_of("lm_head.weight") == "q8_0"
    kept = quantization("gguf", NullPlatform(), STORED)
    assert kept.for_vocabulary().format_of("lm_head.weight") is None


@pytest.mark.parametrize(
    ("asked", "hf", "words"),
    [
        ("gguf", None, "has no quantized blocks"),
        ("q4_K", None, "'q4_K' must be one of none, gguf, int8"),
        ("awq", None, "'awq' must be one of"),
        ("int8", {"quantization_config": {"quant_method": "gptq"}}, "already.*gptq"),
    ],
)
def test_a_quantization_that_cannot_be_is_refused(asked, hf, words):
    with pytest.raises(ConfigError, match=words):
        quantization(asked, NullPlatform(), (), hf)


class Narrow(NullPlatform):
    """A platform whose caches may be of float8."""

    capabilities = dataclasses.replace(
        NullPlatform().capabilities, kv_cache_dtypes=("auto", "float8_e4m3fn")
    )


@pytest.mark.parametrize("name", ["fp8", "fp8_e4m3", "float8_e4m3fn"])
def test_names_of_a_float8_cache(name):
    assert resolve(Narrow(), kv_cache_dtype=name).cache.kv_cache_dtype == "float8_e4m3fn"
    with pytest.raises(ConfigError, match=f"kv_cache_dtype='{name}' must be one of auto"):
        resolve(kv_cache_dtype=name)


@pytest.mark.parametrize(
    ("given", "stored", "expected"),
    [
        ({}, None, "float16"),
        ({"dtype": "float32"}, None, "float32"),
        ({}, "float32", "float32"),
        # Dequantised, or never in blocks: what a checkpoint without a dtype is.
        ({"quantization": "none"}, None, "float32"),
    ],
)
def test_auto_dtype_of_blocks_is_the_platforms(given, stored, expected):
    class Blocks(PlatformPolicy):
        def linear_scheme(self, method):
            return "blocks"

    class Quick(NullPlatform):
        capabilities = PlatformCapabilities(
            dtypes=("float32", "float16"), quantized_dtype="float16"
        )
        policy = Blocks()

    hf = checkpoint(None if stored is None else {"dtype": stored}, {"w": "q4_1"})
    if stored is None:
        hf.config = HFConfig({k: v for k, v in HF.items() if k != "dtype"})
    config = resolve_config(EngineArgs(model="m", **given), Quick(), hf)
    assert config.model.dtype == getattr(torch, expected)
