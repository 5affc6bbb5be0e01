"""Gated activations."""

from __future__ import annotations

import torch
from torch import nn

from runtime.core import ops
from runtime.core.errors import ModelLoadError


class GatedActivation(nn.Module):
    """``act(x[..., :N]) * x[..., N:]``, by the name that a config's ``hidden_act`` has."""

    def __init__(self, name: str) -> None:
        super().__init__()
        if name not in ("silu", "swish"):
            raise ModelLoadError(f"hidden_act={name!r} is not supported (silu)")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., 2 N] to [..., N]."""
        out: torch.Tensor = ops.silu_and_mul(x)
        return out
