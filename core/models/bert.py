"""BERT (Devlin et al. 2019, arXiv:1810.04805) and RoBERTa, encoders of many embedding models."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from torch import nn

from runtime.core.attention.encoder import EncoderAttention
from runtime.core.config.hf_config import HFConfig
from runtime.core.config.runtime import RuntimeConfig
from runtime.core.errors import ModelLoadError
from runtime.core.forward_context import ForwardContext
from runtime.core.layers.activation import Activation
from runtime.core.layers.embedding import VocabEmbedding
from runtime.core.layers.linear import Linear, MergedLinear
from runtime.core.layers.norm import LayerNorm


def _required(hf: HFConfig, name: str) -> int:
    value = hf.get(name)
    if value is None:
        raise ModelLoadError(f"the model's config lacks {name!r}")
    return int(value)


def _layer_norm(config: RuntimeConfig, prefix: str) -> LayerNorm:
    hf = config.model.hf
    eps = float(hf.get("layer_norm_eps", 1e-12))
    return LayerNorm(_required(hf, "hidden_size"), eps, config=config, prefix=prefix)


class BertEmbeddings(nn.Module):
    """Token, position and segment vectors, added and normalised."""

    def __init__(self, *, config: RuntimeConfig, prefix: str) -> None:
        super().__init__()
        hf = config.model.hf
        hidden = _required(hf, "hidden_size")
        self.words = VocabEmbedding(
            _required(hf, "vocab_size"), hidden, config=config, prefix=f"{prefix}.word_embeddings"
        )
        # These tables are small: few bits would cost accuracy and save nothing.
        dense = replace(config, model=replace(config.model, quantization=None))
        self.positions = VocabEmbedding(
            _required(hf, "max_position_embeddings"),
            hidden,
            config=dense,
            prefix=f"{prefix}.position_embeddings",
        )
        self.segments = VocabEmbedding(
            int(hf.get("type_vocab_size", 2)),
            hidden,
            config=dense,
            prefix=f"{prefix}.token_type_embeddings",
        )
        self.norm = _layer_norm(config, f"{prefix}.LayerNorm")

    def forward(self, input_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Vectors [T, hidden_size] of tokens [T] at positions [T]; all are of the first segment."""
        x: torch.Tensor = self.words(input_ids)
        segment: torch.Tensor = self.segments(torch.zeros_like(input_ids[:1]))
        out: torch.Tensor = self.norm(x + self.positions(positions), segment.expand_as(x))
        return out


class BertLayer(nn.Module):
    """Attention and feed-forward, each added to its input and then normalised."""

    def __init__(self, *, config: RuntimeConfig, prefix: str) -> None:
        super().__init__()
        hf = config.model.hf
        hidden, inner = _required(hf, "hidden_size"), _required(hf, "intermediate_size")
        self.heads = _required(hf, "num_attention_heads")
        if hidden % self.heads:
            raise ModelLoadError(
                f"hidden_size={hidden} is not a multiple of num_attention_heads={self.heads}"
            )
        self.head_size = hidden // self.heads
        self.qkv = MergedLinear(
            hidden,
            dict.fromkeys(("query", "key", "value"), hidden),
            bias=True,
            config=config,
            prefix=f"{prefix}.attention.self.qkv",
        )
        self.attention = EncoderAttention(
            self.heads,
            self.heads,
            self.head_size,
            self.head_size**-0.5,
            prefix=f"{prefix}.attention.self",
        )
        self.attention_out = Linear(
            hidden, hidden, bias=True, config=config, prefix=f"{prefix}.attention.output.dense"
        )
        self.attention_norm = _layer_norm(config, f"{prefix}.attention.output.LayerNorm")
        self.up = Linear(
            hidden, inner, bias=True, config=config, prefix=f"{prefix}.intermediate.dense"
        )
        self.activation = Activation(hf.get("hidden_act", "gelu"))
        self.down = Linear(inner, hidden, bias=True, config=config, prefix=f"{prefix}.output.dense")
        self.norm = _layer_norm(config, f"{prefix}.output.LayerNorm")

    def forward(self, x: torch.Tensor, ctx: ForwardContext) -> torch.Tensor:
        """[T, hidden_size] to the same."""
        qkv = self.qkv(x).view(x.shape[0], 3 * self.heads, self.head_size)
        attended = self.attention(*qkv.split(self.heads, dim=1), ctx)
        x = self.attention_norm(self.attention_out(attended), x)
        out: torch.Tensor = self.norm(self.down(self.activation(self.up(x))), x)
        return out


class BertModel(nn.Module):
    """The encoder, without pooler and heads: it gives hidden states, which the engine pools."""

    encoder_only: ClassVar[bool] = True
    wrapper: ClassVar[str] = "bert."
    """What stands before the names of a checkpoint that has heads."""
    heads: ClassVar[tuple[str, ...]] = ("pooler.", "cls.")

    def __init__(self, *, config: RuntimeConfig, prefix: str = "") -> None:
        super().__init__()
        hf = config.model.hf
        kind = hf.get("position_embedding_type", "absolute")
        if kind != "absolute":
            raise ModelLoadError(f"position_embedding_type={kind!r} is not supported ('absolute')")
        if hf.get("is_decoder", False):
            raise ModelLoadError("is_decoder=true: BERT is supported as an encoder only")
        self.first = self.first_position(hf)
        self.embeddings = BertEmbeddings(config=config, prefix=f"{prefix}embeddings")
        self.layers = nn.ModuleList(
            BertLayer(config=config, prefix=f"{prefix}encoder.layer.{index}")
            for index in range(_required(hf, "num_hidden_layers"))
        )

    @classmethod
    def first_position(cls, hf: HFConfig) -> int:
        """The row of the position table that a text's first token has."""
        return 0

    def checkpoint_name(self, name: str) -> str | None:
        """Bring older and wrapped checkpoints' names to today's; pass over pooler and heads."""
        name = name.removeprefix(self.wrapper)
        if name == "embeddings.position_ids" or name.startswith(self.heads):
            return None
        old, new = ("LayerNorm.gamma", "LayerNorm.beta"), ("LayerNorm.weight", "LayerNorm.bias")
        for before, now in zip(old, new, strict=True):
            name = name.replace(before, now)
        return name

    def forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, ctx: ForwardContext
    ) -> torch.Tensor:
        """Hidden states [T, hidden_size]."""
        if self.first:
            positions = positions + self.first
        x: torch.Tensor = self.embeddings(input_ids, positions)
        for layer in self.layers:
            x = layer(x, ctx)
        return x


class RobertaModel(BertModel):
    """RoBERTa (Liu et al. 2019, arXiv:1907.11692), XLM-RoBERTa too: BERT with other positions."""

    wrapper = "roberta."
    heads = ("pooler.", "lm_head.", "classifier.")

    @classmethod
    def first_position(cls, hf: HFConfig) -> int:
        """Behind that of padding, whose row is the padding token's id."""
        return int(hf.get("pad_token_id", 1)) + 1
