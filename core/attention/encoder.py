"""The attention layer of encoders: tokens see those after them, and nothing is kept of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from runtime.core import ops
from runtime.core.errors import ModelLoadError
from runtime.core.forward_context import ForwardContext


@dataclass(frozen=True)
class EncoderBatch:
    """What an encoder layer finds in ``ForwardContext.attention``: whole texts in a row."""

    query_start_loc: torch.Tensor
    """[R + 1] int32: where each text begins among the step's tokens, and where the last ends."""
    lengths: list[int]
    """The same on the host: tokens of each text."""


class EncoderAttention(nn.Module):
    """Attention in both directions within each text, by the op ``encoder_attention``.

    It has no KV cache, so that a text must be computed in one step.
    """

    def __init__(
        self, num_heads: int, num_kv_heads: int, head_size: int, scale: float, *, prefix: str
    ) -> None:
        super().__init__()
        if num_heads % num_kv_heads:
            raise ModelLoadError(
                f"num_attention_heads={num_heads} is not a multiple of "
                f"num_key_value_heads={num_kv_heads}"
            )
        self.layer_name, self.scale = prefix, scale

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, ctx: ForwardContext
    ) -> torch.Tensor:
        """Attend; query [T, H, D], key and value [T, K, D]; returns [T, H * D]."""
        batch = ctx.attention[self.layer_name]
        out: torch.Tensor = ops.encoder_attention(
            query, key, value, batch.query_start_loc, batch.lengths, self.scale
        )
        return out.flatten(1)
