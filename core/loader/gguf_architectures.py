"""What each GGUF architecture calls its settings and tensors, in transformers' words.

A new architecture is one more entry in :data:`ARCHITECTURES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch

RowOrder = Callable[[int, Mapping[str, Any]], torch.Tensor]
"""``(rows, config) -> order`` (int64, rows): row ``i`` of the model is row ``order[i]`` stored."""


def interleaved_rows(heads_key: str) -> RowOrder:
    """Rows whose rotary pairs lie side by side in the file and half a head apart in the model.

    ``heads_key`` is the config's name for the number of heads in the tensor.
    """

    def order(rows: int, config: Mapping[str, Any]) -> torch.Tensor:
        stored = torch.arange(rows).view(int(config[heads_key]), -1, 2)
        return stored.transpose(1, 2).reshape(-1)

    return order


@dataclass(frozen=True)
class GGUFArchitecture:
    """One value of ``general.architecture``."""

    identity: Callable[[Mapping[str, Any]], tuple[str, str]]
    """Transformers' class and ``model_type``, given the config so far."""
    keys: Mapping[str, str]
    """Metadata key without the architecture's prefix → name in ``config.json``."""
    required: tuple[str, ...]
    """Names in ``config.json`` that the file must give."""
    tensors: Mapping[str, str]
    """Tensor name without ``.weight`` or ``.bias`` → transformers'; ``{}`` is the layer."""
    row_order: Mapping[str, RowOrder] = field(default_factory=lambda: MappingProxyType({}))
    """For tensors whose rows are stored in another order."""
    bias_flags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Tensor name → the config's flag that says whether it has a bias."""
    constants: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """What is the same in all files."""
    refused_keys: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Metadata keys that, above 0, mean a model of another kind → what kind."""

    def tensor_name(self, name: str) -> str | None:
        """Transformers' name of a tensor; None where the table has none."""
        stem, _, suffix = name.rpartition(".")
        layer = re.fullmatch(r"blk\.(\d+)\.(.+)", stem)
        if layer is None:
            known = self.tensors.get(stem)
        else:
            known = self.tensors.get(f"blk.{{}}.{layer[2]}")
        if known is None or suffix not in ("weight", "bias"):
            return None
        return f"{known.format(layer[1] if layer else '')}.{suffix}"

    def order_of(self, name: str) -> RowOrder | None:
        """The row order of a tensor, by its name in the file."""
        stem = re.sub(r"^blk\.\d+\.", "blk.{}.", name).rpartition(".")[0]
        return self.row_order.get(stem)


_LLAMA_TENSORS = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "blk.{}.attn_norm": "model.layers.{}.input_layernorm",
    "blk.{}.attn_q": "model.layers.{}.self_attn.q_proj",
    "blk.{}.attn_k": "model.layers.{}.self_attn.k_proj",
    "blk.{}.attn_v": "model.layers.{}.self_attn.v_proj",
    "blk.{}.attn_output": "model.layers.{}.self_attn.o_proj",
    "blk.{}.ffn_norm": "model.layers.{}.post_attention_layernorm",
    "blk.{}.ffn_gate": "model.layers.{}.mlp.gate_proj",
    "blk.{}.ffn_up": "model.layers.{}.mlp.up_proj",
    "blk.{}.ffn_down": "model.layers.{}.mlp.down_proj",
}

_DECODER_KEYS = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
}


def _llama_or_mistral(config: Mapping[str, Any]) -> tuple[str, str]:
    """Both are written as ``llama``; the sliding window is all that tells them apart."""
    if config.get("sliding_window"):
        return "MistralForCausalLM", "mistral"
    return "LlamaForCausalLM", "llama"


ARCHITECTURES: Mapping[str, GGUFArchitecture] = MappingProxyType(
    {
        "llama": GGUFArchitecture(
            identity=_llama_or_mistral,
            keys=_DECODER_KEYS,
            required=(
                "hidden_size",
                "num_hidden_layers",
                "intermediate_size",
                "num_attention_heads",
                "rms_norm_eps",
            ),
            tensors=_LLAMA_TENSORS,
            row_order={
                "blk.{}.attn_q": interleaved_rows("num_attention_heads"),
                "blk.{}.attn_k": interleaved_rows("num_key_value_heads"),
            },
            bias_flags={"blk.0.attn_q": "attention_bias", "blk.0.ffn_gate": "mlp_bias"},
            constants={"hidden_act": "silu"},
            refused_keys={"expert_count": "a mixture of experts"},
        ),
    }
)
