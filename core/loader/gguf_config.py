"""From the metadata of a GGUF file to the ``config.json`` that transformers would have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gguf.constants import GGMLQuantizationType

from runtime.core.errors import ModelLoadError
from runtime.core.loader.gguf_architectures import ARCHITECTURES, GGUFArchitecture
from runtime.core.loader.gguf_header import GGUFHeader

ROPE_FACTORS = "rope_freqs.weight"
"""Tensor of divisors of the rotary frequencies (float32, half the head's rotary size)."""

_FLOAT_DTYPES = {
    GGMLQuantizationType.F32: "float32",
    GGMLQuantizationType.F16: "float16",
    GGMLQuantizationType.BF16: "bfloat16",
}


def architecture_of(path: Path, metadata: Mapping[str, Any]) -> tuple[str, GGUFArchitecture]:
    """The file's ``general.architecture`` and its entry; ModelLoadError lists the known ones."""
    name = str(metadata.get("general.architecture"))
    if name not in ARCHITECTURES:
        raise ModelLoadError(
            f"{path}: the GGUF architecture {name!r} is not supported "
            f"(known: {', '.join(sorted(ARCHITECTURES))})"
        )
    architecture = ARCHITECTURES[name]
    for key, kind in architecture.refused_keys.items():
        if metadata.get(f"{name}.{key}", 0) > 0:
            raise ModelLoadError(
                f"{path}: the GGUF architecture {name!r} is supported, but this file is {kind} "
                f"({name}.{key} = {metadata[f'{name}.{key}']})"
            )
    return name, architecture


def model_config(
    path: Path, header: GGUFHeader, rope_factors: list[float] | None
) -> dict[str, Any]:
    """The model's configuration under transformers' names.

    ``rope_factors`` are the values of :data:`ROPE_FACTORS` where the file has that tensor.

    Raises:
        ModelLoadError: an unknown architecture, or a setting that is missing or has a meaning
            that transformers' config has no words for.
    """
    metadata = header.metadata
    name, architecture = architecture_of(path, metadata)
    config: dict[str, Any] = dict(architecture.constants)
    for key, target in architecture.keys.items():
        if f"{name}.{key}" in metadata:
            config[target] = _one_value(path, f"{name}.{key}", metadata[f"{name}.{key}"])
    for target in architecture.required:
        if target not in config:
            key = next(key for key, value in architecture.keys.items() if value == target)
            raise ModelLoadError(f"{path} has no {name}.{key}")
    config.setdefault("num_key_value_heads", config["num_attention_heads"])
    rotary = metadata.get(f"{name}.rope.dimension_count")
    default_head = rotary or config["hidden_size"] // config["num_attention_heads"]
    config.setdefault("head_dim", default_head)
    if rotary not in (None, config["head_dim"]):
        raise ModelLoadError(
            f"{path}: {name}.rope.dimension_count is {rotary}, but heads have "
            f"{config['head_dim']} values: rotating a part of a head is not supported"
        )
    config["rope_parameters"] = _rope(path, name, metadata, rope_factors, config)
    config["vocab_size"] = _vocab_size(path, name, header)
    config["tie_word_embeddings"] = "output.weight" not in header.tensors
    for stem, flag in architecture.bias_flags.items():
        config[flag] = f"{stem}.bias" in header.tensors
    dtype = _stored_dtype(header)
    if dtype is not None:
        config["dtype"] = dtype
    model_class, config["model_type"] = architecture.identity(config)
    config["architectures"] = [model_class]
    return {**config, **_token_ids(metadata)}


def generation_config(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults of generation: all tokens that end an answer, not only the end of sequence."""
    keys = ("eos_token_id", "eot_token_id", "eom_token_id")
    ends = [
        metadata[f"tokenizer.ggml.{key}"] for key in keys if f"tokenizer.ggml.{key}" in metadata
    ]
    config = _token_ids(metadata)
    if ends:
        config["eos_token_id"] = list(dict.fromkeys(ends))
    return config


def _token_ids(metadata: Mapping[str, Any]) -> dict[str, Any]:
    names = {"bos": "bos", "eos": "eos", "padding": "pad"}
    return {
        f"{target}_token_id": metadata[f"tokenizer.ggml.{name}_token_id"]
        for name, target in names.items()
        if f"tokenizer.ggml.{name}_token_id" in metadata
    }


def _one_value(path: Path, key: str, value: Any) -> Any:
    """A setting that may be listed layer by layer, which must then agree."""
    if not isinstance(value, list):
        return value
    if len(set(value)) != 1:
        raise ModelLoadError(f"{path}: {key} differs between layers, which is not supported")
    return value[0]


def _vocab_size(path: Path, name: str, header: GGUFHeader) -> int:
    embedding = header.tensors.get("token_embd.weight")
    if embedding is not None:
        return embedding.shape[0]
    tokens = header.metadata.get("tokenizer.ggml.tokens")
    size = header.metadata.get(f"{name}.vocab_size") or (len(tokens) if tokens else 0)
    if not size:
        raise ModelLoadError(f"{path} has neither token_embd.weight nor {name}.vocab_size")
    return int(size)


def _stored_dtype(header: GGUFHeader) -> str | None:
    """The dtype of the matrices where all have one; None where any is quantised."""
    kinds = {tensor.type for tensor in header.tensors.values() if len(tensor.shape) > 1}
    return _FLOAT_DTYPES.get(kinds.pop()) if len(kinds) == 1 else None


def _rope(
    path: Path,
    name: str,
    metadata: Mapping[str, Any],
    factors: list[float] | None,
    config: Mapping[str, Any],
) -> dict[str, Any]:
    """Transformers' ``rope_parameters``."""

    def setting(key: str, default: Any = None) -> Any:
        return metadata.get(f"{name}.rope.{key}", default)

    kind = setting("scaling.type", "linear" if setting("scale_linear") else "none")
    factor = float(setting("scaling.factor", setting("scale_linear", 1.0)) or 1.0)
    rope: dict[str, Any] = {"rope_theta": float(setting("freq_base", 10000.0))}
    if kind not in ("none", "linear", "yarn") or (kind == "yarn" and factors is not None):
        extra = f" together with {ROPE_FACTORS}" if kind == "yarn" else ""
        raise ModelLoadError(
            f"{path}: {name}.rope.scaling.type {kind!r}{extra} is not supported "
            "(none, linear, yarn)"
        )
    if factors is not None:
        # The factors say how far each frequency is lowered but not by which rule (it may be
        # Llama 3's, or another). Transformers' "longrope" takes such a list as it is; with one
        # list for short and long texts and no scaling of attention it means just that.
        scale = factor if kind == "linear" else 1.0
        scaled = [value * scale for value in factors]
        return rope | {
            "rope_type": "longrope",
            "short_factor": scaled,
            "long_factor": scaled,
            "attention_factor": 1.0,
            "original_max_position_embeddings": config.get("max_position_embeddings"),
        }
    if kind == "none" or factor == 1.0:
        return rope | {"rope_type": "default"}
    if kind == "linear":
        return rope | {"rope_type": "linear", "factor": factor}
    rope |= {"rope_type": "yarn", "factor": factor}
    optional = {
        "scaling.original_context_length": "original_max_position_embeddings",
        "scaling.yarn_beta_fast": "beta_fast",
        "scaling.yarn_beta_slow": "beta_slow",
    }
    rope |= {new: setting(old) for old, new in optional.items() if setting(old) is not None}
    if setting("scaling.attn_factor") is not None:
        # The file's factor multiplies the method's own; transformers' replaces it.
        rope["attention_factor"] = setting("scaling.attn_factor") * (1 + 0.1 * math.log(factor))
    return rope
