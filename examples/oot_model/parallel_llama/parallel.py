"""Llama with attention and feed-forward side by side, as in GPT-J (Wang & Komatsuzaki 2021).

Both read the same normalised input and both are added to the residual, so a layer has one
normalisation. Tensors are named as in Llama, without ``post_attention_layernorm``.
"""

from __future__ import annotations

import torch
from torch import nn

from runtime.core.config.runtime import RuntimeConfig
from runtime.core.forward_context import ForwardContext
from runtime.core.layers.embedding import LMHead, VocabEmbedding
from runtime.core.layers.norm import RMSNorm
from runtime.core.layers.rotary import RotaryEmbedding
from runtime.core.models.llama import LlamaAttention, LlamaMLP


class ParallelLayer(nn.Module):
    """``x + attention(norm(x)) + mlp(norm(x))``."""

    def __init__(self, rotary: RotaryEmbedding, *, config: RuntimeConfig, prefix: str) -> None:
        super().__init__()
        hf = config.model.hf
        self.input_layernorm = RMSNorm(
            hf.hidden_size, hf.rms_norm_eps, config=config, prefix=f"{prefix}.input_layernorm"
        )
        self.self_attn = LlamaAttention(rotary, config=config, prefix=f"{prefix}.self_attn")
        self.mlp = LlamaMLP(config=config, prefix=f"{prefix}.mlp")

    def forward(
        self,
        x: torch.Tensor,
        residual: torch.Tensor | None,
        positions: torch.Tensor,
        ctx: ForwardContext,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The layer's output, not yet added to the residual that comes with it."""
        normed, residual = self.input_layernorm(x, residual)
        return self.self_attn(normed, positions, ctx) + self.mlp(normed), residual


class ParallelLlamaForCausalLM(nn.Module):
    """The whole model."""

    def __init__(self, *, config: RuntimeConfig, prefix: str = "") -> None:
        super().__init__()
        hf, body = config.model.hf, f"{prefix}model"
        self.embed_tokens = VocabEmbedding(
            hf.vocab_size, hf.hidden_size, config=config, prefix=f"{body}.embed_tokens"
        )
        rotary = RotaryEmbedding(hf.hidden_size // hf.num_attention_heads, config=config)
        self.layers = nn.ModuleList(
            ParallelLayer(rotary, config=config, prefix=f"{body}.layers.{index}")
            for index in range(hf.num_hidden_layers)
        )
        self.norm = RMSNorm(hf.hidden_size, hf.rms_norm_eps, config=config, prefix=f"{body}.norm")
        self.lm_head = LMHead(
            self.embed_tokens, tied=False, config=config, prefix=f"{prefix}lm_head"
        )

    def forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, ctx: ForwardContext
    ) -> torch.Tensor:
        """Hidden states [T, hidden_size]."""
        x, residual = self.embed_tokens(input_ids), None
        for layer in self.layers:
            x, residual = layer(x, residual, positions, ctx)
        return self.norm(x, residual)[0]

    def compute_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [N, vocab_size]."""
        return self.lm_head(hidden)
