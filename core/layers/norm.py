"""Normalisation layers."""

from __future__ import annotations

import torch
from torch import nn

from runtime.core import ops
from runtime.core.config.runtime import RuntimeConfig


class RMSNorm(nn.Module):
    """Root mean square normalisation, with the residual addition before it."""

    def __init__(self, size: int, eps: float, *, config: RuntimeConfig, prefix: str) -> None:
        super().__init__()
        self.prefix, self.eps = prefix, eps
        values = torch.empty(size, dtype=config.model.dtype, device=config.device())
        self.weight = nn.Parameter(values, requires_grad=False)

    def checkpoint_tensors(self) -> dict[str, torch.Tensor]:
        """The weight."""
        return {f"{self.prefix}.weight": self.weight.detach()}

    def forward(
        self, x: torch.Tensor, residual: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(norm(x + residual), x + residual), each [T, size]; without a residual it is x."""
        if residual is None:
            return ops.rms_norm(x, self.weight, self.eps), x
        normed, total = ops.fused_add_rms_norm(x, residual, self.weight, self.eps)
        return normed, total


class LayerNorm(nn.Module):
    """Layer normalisation, with the residual addition before it."""

    def __init__(self, size: int, eps: float, *, config: RuntimeConfig, prefix: str) -> None:
        super().__init__()
        self.prefix, self.eps = prefix, eps
        dtype, device = config.model.dtype, config.device()
        self.weight = nn.Parameter(
            torch.empty(size, dtype=dtype, device=device), requires_grad=False
        )
        self.bias = nn.Parameter(torch.empty(size, dtype=dtype, device=device), requires_grad=False)

    def checkpoint_tensors(self) -> dict[str, torch.Tensor]:
        """Weight and bias."""
        return {
            f"{self.prefix}.weight": self.weight.detach(),
            f"{self.prefix}.bias": self.bias.detach(),
        }

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        """norm(x + residual), [T, size]."""
        out: torch.Tensor = ops.layer_norm(x, residual, self.weight, self.bias, self.eps)
        return out
