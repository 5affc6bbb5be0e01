"""Activations, gated and plain."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import nn

from runtime.core import ops
from runtime.core.errors import ModelLoadError
from runtime.core.ops.registry import Op

_GATES: Mapping[str, Op] = MappingProxyType(
    {
        "silu": ops.silu_and_mul,
        "swish": ops.silu_and_mul,
        "gelu_pytorch_tanh": ops.gelu_tanh_and_mul,
        "gelu_new": ops.gelu_tanh_and_mul,
    }
)

_TANH: Mapping[str, bool] = MappingProxyType(
    {"gelu": False, "gelu_new": True, "gelu_pytorch_tanh": True}
)
"""Whether an activation is GELU in its tanh form."""


class GatedActivation(nn.Module):
    """``act(x[..., :N]) * x[..., N:]``, by the name that a config's ``hidden_act`` has."""

    def __init__(self, name: str) -> None:
        super().__init__()
        if name not in _GATES:
            known = ", ".join(_GATES)
            raise ModelLoadError(f"hidden_act={name!r} is not supported (one of {known})")
        self.gate = _GATES[name]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., 2 N] to [..., N]."""
        out: torch.Tensor = self.gate(x)
        return out


class Activation(nn.Module):
    """An activation by the name that a config's ``hidden_act`` has."""

    def __init__(self, name: str) -> None:
        super().__init__()
        if name not in _TANH:
            known = ", ".join(_TANH)
            raise ModelLoadError(f"hidden_act={name!r} is not supported (one of {known})")
        self.tanh = _TANH[name]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., N] to the same."""
        out: torch.Tensor = ops.gelu(x, self.tanh)
        return out
