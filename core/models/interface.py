"""What a model must offer."""

from __future__ import annotations

from typing import ClassVar, Protocol

import torch

from runtime.core.config.runtime import RuntimeConfig
from runtime.core.forward_context import ForwardContext


class CausalLM(Protocol):
    """A language model: an ``nn.Module`` with these methods.

    Its layers name the checkpoint's tensors that they own in ``checkpoint_tensors()``. One
    method is optional: ``checkpoint_name(name) -> str | None`` renames a checkpoint's tensor, or
    says by None that it is not needed (default: names are as they are). A class whose checkpoints
    have no head says so by ``pools_only = True``: it is pooled, never asked for logits.
    """

    def __init__(self, *, config: RuntimeConfig, prefix: str = "") -> None:
        """Build the model on ``config.device()``, its weights not yet filled."""

    def forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, ctx: ForwardContext
    ) -> torch.Tensor:
        """Hidden states [T, hidden_size] of tokens [T] at positions [T]."""

    def compute_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [N, vocab_size] of hidden states [N, hidden_size]."""


class Encoder(Protocol):
    """A model whose tokens see those after them: it gives hidden states, which are pooled.

    As :class:`CausalLM`, but its attention layers are
    :class:`runtime.core.attention.encoder.EncoderAttention`, and it has no logits. Each prompt is
    computed in one step.
    """

    encoder_only: ClassVar[bool]
    """True."""

    # One classmethod is optional: ``first_position(hf) -> int`` says how many rows of the position
    # table come before a text's first (default: none).

    def __init__(self, *, config: RuntimeConfig, prefix: str = "") -> None:
        """Build the model on ``config.device()``, its weights not yet filled."""

    def forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, ctx: ForwardContext
    ) -> torch.Tensor:
        """Hidden states [T, hidden_size] of tokens [T] at positions [T]."""
