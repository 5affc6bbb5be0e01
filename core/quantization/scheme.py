"""The interface that linear layers ask, and the plain dense scheme."""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import nn

from runtime.core import ops
from runtime.core.config.runtime import RuntimeConfig
from runtime.core.errors import ModelLoadError


class LinearScheme(ABC):
    """How one linear layer keeps and uses its weights."""

    @abstractmethod
    def create(self, layer: nn.Module, out_features: int, in_features: int) -> None:
        """Register the layer's weight parameters, uninitialised, on the device."""

    @abstractmethod
    def rows(self, layer: nn.Module, start: int, stop: int) -> dict[str, torch.Tensor]:
        """Views of the parameters that make output features ``start:stop``, by their suffix.

        The suffix is what follows the layer's name in the checkpoint (``weight``).
        """

    def after_loading(self, layer: nn.Module) -> None:  # noqa: B027 (optional)
        """Pack or convert the weights once they are there. Default: nothing."""

    @abstractmethod
    def apply(self, layer: nn.Module, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """``x @ weight.T + bias``: x [..., in_features], returns [..., out_features]."""


class DenseScheme(LinearScheme):
    """Weights in the model's dtype."""

    def __init__(self, config: RuntimeConfig) -> None:
        self.dtype = config.model.dtype
        self.device = config.device()

    def create(self, layer: nn.Module, out_features: int, in_features: int) -> None:
        """One matrix [out_features, in_features]."""
        values = torch.empty(out_features, in_features, dtype=self.dtype, device=self.device)
        layer.weight = nn.Parameter(values, requires_grad=False)

    def rows(self, layer: nn.Module, start: int, stop: int) -> dict[str, torch.Tensor]:
        """The matrix' rows."""
        weight = layer.weight
        assert isinstance(weight, torch.Tensor)
        return {"weight": weight.detach()[start:stop]}

    def apply(self, layer: nn.Module, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """The product with the matrix."""
        weight = layer.weight
        assert isinstance(weight, torch.Tensor)
        out: torch.Tensor = ops.linear(x, weight, bias)
        return out


def scheme_for(config: RuntimeConfig, prefix: str) -> LinearScheme:
    """The scheme of the layer of that name: the platform's own, or the core's.

    Raises:
        ModelLoadError: the checkpoint is quantised by a method that neither supports.
    """
    quantised = config.model.hf.get("quantization_config")
    method = None if quantised is None else str(quantised.get("quant_method", "unnamed"))
    own = config.platform.policy.linear_scheme(method)
    if own is not None:
        scheme_class: Callable[[RuntimeConfig], LinearScheme] = pkgutil.resolve_name(own)
        return scheme_class(config)
    if method is not None:
        raise ModelLoadError(
            f"{prefix}: the checkpoint is quantized by {method!r} (quantization_config), "
            "which is not supported; use an unquantized checkpoint or a GGUF file"
        )
    return DenseScheme(config)
