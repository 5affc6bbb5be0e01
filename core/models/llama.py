"""Llama (Touvron et al. 2023, arXiv:2302.13971), and the layers of models that derive from it."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from torch import nn

from runtime.core.attention.layer import Attention
from runtime.core.config.hf_config import HFConfig
from runtime.core.config.runtime import RuntimeConfig
from runtime.core.errors import ModelLoadError
from runtime.core.forward_context import ForwardContext
from runtime.core.layers.activation import GatedActivation
from runtime.core.layers.embedding import LMHead, VocabEmbedding
from runtime.core.layers.linear import Linear, MergedLinear
from runtime.core.layers.norm import RMSNorm
from runtime.core.layers.rotary import RotaryEmbedding


def _required(hf: HFConfig, name: str) -> int:
    value = hf.get(name)
    if value is None:
        raise ModelLoadError(f"the model's config lacks {name!r}")
    return int(value)


class LlamaMLP(nn.Module):
    """SwiGLU feed-forward layer."""

    def __init__(self, *, config: RuntimeConfig, prefix: str) -> None:
        super().__init__()
        hf = config.model.hf
        hidden, inner = _required(hf, "hidden_size"), _required(hf, "intermediate_size")
        bias = bool(hf.get("mlp_bias", False))
        self.gate_up_proj = MergedLinear(
            hidden,
            {"gate_proj": inner, "up_proj": inner},
            bias=bias,
            config=config,
            prefix=f"{prefix}.gate_up_proj",
        )
        self.activation = GatedActivation(hf.get("hidden_act", "silu"))
        self.down_proj = Linear(
            inner, hidden, bias=bias, config=config, prefix=f"{prefix}.down_proj"
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[T, hidden_size] to the same."""
        out: torch.Tensor = self.down_proj(self.activation(self.gate_up_proj(x)))
        return out


class LlamaAttention(nn.Module):
    """Grouped-query attention with rotary embedding."""

    def __init__(self, rotary: RotaryEmbedding, *, config: RuntimeConfig, prefix: str) -> None:
        super().__init__()
        hf = config.model.hf
        hidden = _required(hf, "hidden_size")
        self.heads = _required(hf, "num_attention_heads")
        self.kv_heads = int(hf.get("num_key_value_heads", self.heads))
        self.head_size = int(hf.get("head_dim", hidden // self.heads))
        bias = bool(hf.get("attention_bias", False))
        self.qkv_proj = MergedLinear(
            hidden,
            {
                "q_proj": self.heads * self.head_size,
                "k_proj": self.kv_heads * self.head_size,
                "v_proj": self.kv_heads * self.head_size,
            },
            bias=bias,
            config=config,
            prefix=f"{prefix}.qkv_proj",
        )
        self.o_proj = Linear(
            self.heads * self.head_size,
            hidden,
            bias=bias,
            config=config,
            prefix=f"{prefix}.o_proj",
        )
        self.rotary = rotary
        self.attention = Attention(
            self.heads,
            self.kv_heads,
            self.head_size,
            self.head_size**-0.5,
            config=config,
            prefix=f"{prefix}.attention",
            sliding_window=hf.get("sliding_window"),
        )

    def forward(
        self, x: torch.Tensor, positions: torch.Tensor, ctx: ForwardContext
    ) -> torch.Tensor:
        """[T, hidden_size] to the same."""
        heads, kv_heads = self.heads, self.kv_heads
        qkv = self.qkv_proj(x).view(x.shape[0], heads + 2 * kv_heads, self.head_size)
        query, key, value = qkv.split((heads, kv_heads, kv_heads), dim=1)
        rotation = self.rotary.rotation(positions)
        attended = self.attention(query, key, value, ctx, rotation=rotation)
        out: torch.Tensor = self.o_proj(attended)
        return out


class LlamaDecoderLayer(nn.Module):
    """Attention and feed-forward, each after a normalisation and beside a residual."""

    def __init__(self, rotary: RotaryEmbedding, *, config: RuntimeConfig, prefix: str) -> None:
        super().__init__()
        hf = config.model.hf
        hidden, eps = _required(hf, "hidden_size"), float(hf.get("rms_norm_eps", 1e-6))
        self.input_layernorm = RMSNorm(
            hidden, eps, config=config, prefix=f"{prefix}.input_layernorm"
        )
        self.self_attn = LlamaAttention(rotary, config=config, prefix=f"{prefix}.self_attn")
        self.post_attention_layernorm = RMSNorm(
            hidden, eps, config=config, prefix=f"{prefix}.post_attention_layernorm"
        )
        self.mlp = LlamaMLP(config=config, prefix=f"{prefix}.mlp")

    def forward(
        self,
        x: torch.Tensor,
        residual: torch.Tensor | None,
        positions: torch.Tensor,
        ctx: ForwardContext,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The layer's output, not yet added to the residual that comes with it."""
        x, residual = self.input_layernorm(x, residual)
        x = self.self_attn(x, positions, ctx)
        x, residual = self.post_attention_layernorm(x, residual)
        return self.mlp(x), residual


class LlamaForCausalLM(nn.Module):
    """The whole model; without a head of its own where the engine pools."""

    def __init__(self, *, config: RuntimeConfig, prefix: str = "") -> None:
        super().__init__()
        hf = self.read_config(config.model.hf)
        config = replace(config, model=replace(config.model, hf=hf))
        hidden, vocab = _required(hf, "hidden_size"), _required(hf, "vocab_size")
        heads = _required(hf, "num_attention_heads")
        body = f"{prefix}model"
        pools = config.model.pooling is not None
        self.tied = pools or bool(hf.get("tie_word_embeddings", False))
        self.embed_tokens = VocabEmbedding(
            vocab, hidden, config=config, prefix=f"{body}.embed_tokens"
        )
        rotary = RotaryEmbedding(int(hf.get("head_dim", hidden // heads)), config=config)
        self.layers = nn.ModuleList(
            LlamaDecoderLayer(rotary, config=config, prefix=f"{body}.layers.{index}")
            for index in range(_required(hf, "num_hidden_layers"))
        )
        eps = float(hf.get("rms_norm_eps", 1e-6))
        self.norm = RMSNorm(hidden, eps, config=config, prefix=f"{body}.norm")
        self.lm_head = LMHead(
            self.embed_tokens, tied=self.tied, config=config, prefix=f"{prefix}lm_head"
        )

    @classmethod
    def read_config(cls, hf: HFConfig) -> HFConfig:
        """The config as the layers shall read it. A derived architecture has its own defaults.

        As in transformers, Llama's attention has no window whatever the file says.
        """
        return hf.replace(sliding_window=None)

    def checkpoint_name(self, name: str) -> str | None:
        """Pass over a tied head and the frequencies that old checkpoints carry."""
        if name.endswith("rotary_emb.inv_freq") or (self.tied and name == "lm_head.weight"):
            return None
        return name

    def forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, ctx: ForwardContext
    ) -> torch.Tensor:
        """Hidden states [T, hidden_size]."""
        x: torch.Tensor = self.embed_tokens(input_ids)
        residual: torch.Tensor | None = None
        for layer in self.layers:
            x, residual = layer(x, residual, positions, ctx)
        x, _ = self.norm(x, residual)
        return x

    def compute_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [N, vocab_size]."""
        logits: torch.Tensor = self.lm_head(hidden)
        return logits


class LlamaModel(LlamaForCausalLM):
    """The body alone, as checkpoints of embedding models have it: it cannot generate."""

    pools_only: ClassVar[bool] = True

    def checkpoint_name(self, name: str) -> str | None:
        """The whole model's name for a tensor of the body."""
        return super().checkpoint_name(f"model.{name}")
