"""The interface that linear layers ask, and the plain dense scheme."""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import torch
from torch import nn

from runtime.core import ops
from runtime.core.config.runtime import RuntimeConfig
from runtime.core.errors import ModelLoadError
from runtime.core.quantization.block_formats import BlockRows

BLOCKS = "blocks"
"""The method of weights in the formats of :mod:`runtime.core.quantization.block_formats`."""


class WeightOwner(nn.Module, ABC):
    """A layer that has a scheme."""

    @abstractmethod
    def parts(self) -> Mapping[str, int]:
        """The checkpoint's tensors that its matrix is made of, and their rows, in order."""


class LinearScheme(ABC):
    """How one layer keeps and uses its matrix."""

    embeds = False
    """Whether :meth:`gather` is there, so that a token embedding can use the scheme."""

    @abstractmethod
    def create(self, layer: WeightOwner, out_features: int, in_features: int) -> None:
        """Register the layer's weight parameters, uninitialised, on the device."""

    @abstractmethod
    def rows(
        self, layer: WeightOwner, start: int, stop: int
    ) -> dict[str, torch.Tensor | BlockRows]:
        """Views of the parameters that make output features ``start:stop``, by their suffix.

        The suffix is what follows the layer's name in the checkpoint (``weight``).
        """

    def after_loading(self, layer: WeightOwner) -> None:  # noqa: B027 (optional)
        """Pack or convert the weights once they are there. Default: nothing."""

    @abstractmethod
    def apply(self, layer: WeightOwner, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """``x @ weight.T + bias``: x [..., in_features], returns [..., out_features]."""

    def gather(self, layer: WeightOwner, ids: torch.Tensor) -> torch.Tensor:
        """The matrix' rows of ids [T], in the model's dtype [T, in_features].

        Default: not there; see :attr:`embeds`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no rows to look up")


class DenseScheme(LinearScheme):
    """Weights in the model's dtype."""

    def __init__(self, config: RuntimeConfig) -> None:
        self.dtype = config.model.dtype
        self.device = config.device()

    def create(self, layer: WeightOwner, out_features: int, in_features: int) -> None:
        """One matrix [out_features, in_features]."""
        values = torch.empty(out_features, in_features, dtype=self.dtype, device=self.device)
        layer.weight = nn.Parameter(values, requires_grad=False)

    def rows(
        self, layer: WeightOwner, start: int, stop: int
    ) -> dict[str, torch.Tensor | BlockRows]:
        """The matrix' rows."""
        return {"weight": _weight(layer).detach()[start:stop]}

    def apply(self, layer: WeightOwner, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """The product with the matrix."""
        out: torch.Tensor = ops.linear(x, _weight(layer), bias)
        return out


class DenseTable(DenseScheme):
    """The same for a token embedding; subclasses of the other may turn the matrix."""

    embeds = True

    def gather(self, layer: WeightOwner, ids: torch.Tensor) -> torch.Tensor:
        """Rows of the matrix."""
        vectors: torch.Tensor = ops.embedding(ids, _weight(layer))
        return vectors


def _weight(layer: WeightOwner) -> torch.Tensor:
    weight = layer.weight
    assert isinstance(weight, torch.Tensor)
    return weight


def scheme_for(config: RuntimeConfig, prefix: str) -> LinearScheme:
    """The scheme of the layer of that name: the platform's own, or the core's.

    Raises:
        ModelLoadError: the checkpoint is quantised by a method that neither supports.
    """
    method = _method(config)
    own = config.platform.policy.linear_scheme(method)
    if own is not None:
        scheme_class: Callable[[RuntimeConfig], LinearScheme] = pkgutil.resolve_name(own)
        return scheme_class(config)
    if method == BLOCKS:
        # Here, since it derives from this module's class.
        from runtime.core.quantization.block_scheme import BlockScheme

        return BlockScheme(config)
    if method is not None:
        raise ModelLoadError(
            f"{prefix}: the checkpoint is quantized by {method!r} (quantization_config), "
            "which is not supported; use an unquantized checkpoint or a GGUF file"
        )
    return DenseScheme(config)


def embedding_scheme_for(config: RuntimeConfig, prefix: str) -> LinearScheme:
    """The scheme of a token embedding: dense where the layers' own looks up no rows."""
    scheme = scheme_for(config, prefix)
    return scheme if scheme.embeds else DenseTable(config)


def _method(config: RuntimeConfig) -> str | None:
    quantised = config.model.hf.get("quantization_config")
    if quantised is not None:
        return str(quantised.get("quant_method", "unnamed"))
    return None if config.model.quantization is None else BLOCKS
