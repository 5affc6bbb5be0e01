"""Small checkpoints of both formats, and what loading them needs."""

import json

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from runtime.core.config.hf_config import HFConfig
from runtime.core.config.runtime import (
    CacheConfig,
    LoadConfig,
    ModelConfig,
    RuntimeConfig,
    SchedulerConfig,
    SchedulingPolicy,
)
from runtime.platforms.null.platform import NullPlatform

HIDDEN, HEADS, KV_HEADS, INNER, VOCAB = 64, 4, 2, 96, 40


@pytest.fixture
def tensors():
    """Random tensors of several dtypes and shapes."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape):
        return torch.randn(shape, generator=generator)

    return {
        "a.weight": random(6, 8),
        "b.weight": random(5, 3).to(torch.bfloat16),
        "c.weight": random(7).to(torch.float16),
        "scale": random(),
    }


@pytest.fixture
def hf_dir(tmp_path, tensors):
    """A model directory of ``shards`` files (1: without an index): ``hf_dir(shards=1)``."""

    def make(shards=1, name="model with blanks.v1"):
        path = tmp_path / name
        path.mkdir()
        (path / "config.json").write_text(json.dumps({"hidden_size": 8, "architectures": ["X"]}))
        if shards == 1:
            save_file(tensors, path / "model.safetensors")
            return path
        weight_map = {}
        for index in range(shards):
            shard = f"model-{index + 1:05}-of-{shards:05}.safetensors"
            part = {key: tensors[key] for key in list(tensors)[index::shards]}
            save_file(part, path / shard)
            weight_map |= dict.fromkeys(part, shard)
        text = json.dumps({"metadata": {}, "weight_map": weight_map})
        (path / "model.safetensors.index.json").write_text(text)
        return path

    return make


@pytest.fixture
def llama_tensors():
    """Random tensors of a two-layer Llama, under transformers' names (float32)."""
    shapes = {
        "model.embed_tokens.weight": (VOCAB, HIDDEN),
        "model.norm.weight": (HIDDEN,),
        "lm_head.weight": (VOCAB, HIDDEN),
    }
    head = HIDDEN // HEADS
    for layer in range(2):
        prefix = f"model.layers.{layer}."
        shapes |= {
            prefix + "input_layernorm.weight": (HIDDEN,),
            prefix + "post_attention_layernorm.weight": (HIDDEN,),
            prefix + "self_attn.q_proj.weight": (HEADS * head, HIDDEN),
            prefix + "self_attn.k_proj.weight": (KV_HEADS * head, HIDDEN),
            prefix + "self_attn.v_proj.weight": (KV_HEADS * head, HIDDEN),
            prefix + "self_attn.o_proj.weight": (HIDDEN, HEADS * head),
            prefix + "mlp.gate_proj.weight": (INNER, HIDDEN),
            prefix + "mlp.up_proj.weight": (INNER, HIDDEN),
            prefix + "mlp.down_proj.weight": (HIDDEN, INNER),
        }
    generator = torch.Generator().manual_seed(1)
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def interleave(values, heads):
    """Rows as GGUF stores rotary heads: element i and i + half side by side."""
    halves = values.reshape(heads, 2, -1, *values.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(values.shape))


@pytest.fixture
def make_gguf(tmp_path, llama_tensors):
    """Write a Llama GGUF: ``make_gguf(quantize=type, keys={...}, drop=(...), extra={...})``.

    ``keys`` override or, with None, remove metadata; ``extra`` are more tensors by their GGUF
    names, ``drop`` tensors left out by transformers' names.
    """

    def make(name="tiny.v1.gguf", *, arch="llama", quantize=None, keys=None, drop=(), extra=None):
        path = tmp_path / name
        writer = gguf.GGUFWriter(path, arch)
        metadata = {
            "context_length": 128,
            "embedding_length": HIDDEN,
            "block_count": 2,
            "feed_forward_length": INNER,
            "attention.head_count": HEADS,
            "attention.head_count_kv": KV_HEADS,
            "attention.layer_norm_rms_epsilon": 1e-5,
            "rope.dimension_count": HIDDEN // HEADS,
            "rope.freq_base": 10000.0,
            "vocab_size": VOCAB,
        }
        metadata = {f"{arch}.{key}": value for key, value in metadata.items()} | (keys or {})
        for key, value in metadata.items():
            add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
            add |= {bool: writer.add_bool, list: writer.add_array}
            if value is not None:
                add[type(value)](key, value)
        names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)
        for key, tensor in llama_tensors.items():
            if key in drop:
                continue
            values = tensor.numpy()
            if "q_proj" in key or "k_proj" in key:
                values = interleave(values, HEADS if "q_proj" in key else KV_HEADS)
            stored = names.get_name(key, try_suffixes=(".weight",))
            if quantize is None or values.ndim == 1:
                writer.add_tensor(stored, values)
            else:
                packed = gguf.quantize(values, quantize)
                writer.add_tensor(stored, packed, raw_dtype=quantize)
        for key, values in (extra or {}).items():
            writer.add_tensor(key, values)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return make


@pytest.fixture
def runtime_config():
    """A configuration that matters to loading only: ``runtime_config(load_format, seed)``."""

    def make(load_format="auto", seed=0, use_tqdm=False, platform=None):
        model = ModelConfig(
            model="none",
            tokenizer=None,
            skip_tokenizer_init=True,
            hf=HFConfig({}),
            generation=HFConfig({}),
            architecture="None",
            dtype=torch.float32,
            max_model_len=16,
            vocab_size=VOCAB,
            seed=seed,
            enforce_eager=True,
            max_logprobs=0,
        )
        return RuntimeConfig(
            platform=platform or NullPlatform(),
            model=model,
            load=LoadConfig(load_format, use_tqdm),
            cache=CacheConfig(16, True, None, "auto"),
            scheduler=SchedulerConfig(16, 1, SchedulingPolicy.FCFS, True),
        )

    return make
