"""Linear layers."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from runtime.core.config.runtime import RuntimeConfig
from runtime.core.quantization.block_formats import BlockRows
from runtime.core.quantization.scheme import WeightOwner, scheme_for


class MergedLinear(WeightOwner):
    """Several linear layers of a checkpoint that share their input, as one matrix product.

    ``outputs`` gives each one's name and output features, in the order in which their outputs
    stand side by side. In the checkpoint they are siblings of this layer: ``qkv_proj`` at
    ``model.layers.0.self_attn.qkv_proj`` fills from ``model.layers.0.self_attn.q_proj.weight``
    and so on.
    """

    def __init__(
        self,
        in_features: int,
        outputs: Mapping[str, int],
        *,
        bias: bool,
        config: RuntimeConfig,
        prefix: str,
    ) -> None:
        super().__init__()
        self.outputs = dict(outputs)
        self.parent = prefix.rpartition(".")[0]
        self.scheme = scheme_for(config, prefix)
        total = sum(self.outputs.values())
        self.scheme.create(self, total, in_features)
        self.bias: nn.Parameter | None = None
        if bias:
            values = torch.empty(total, dtype=config.model.dtype, device=config.device())
            self.bias = nn.Parameter(values, requires_grad=False)

    def parts(self) -> dict[str, int]:
        """Each one's weight and output features."""
        return {f"{self._prefix_of(name)}.weight": size for name, size in self.outputs.items()}

    def _prefix_of(self, name: str) -> str:
        return f"{self.parent}.{name}" if self.parent else name

    def checkpoint_tensors(self) -> dict[str, torch.Tensor | BlockRows]:
        """Rows of the weights, and of the bias, by their names in the checkpoint."""
        found: dict[str, torch.Tensor | BlockRows] = {}
        start = 0
        for name, size in self.outputs.items():
            prefix = self._prefix_of(name)
            views = self.scheme.rows(self, start, start + size)
            found.update({f"{prefix}.{suffix}": view for suffix, view in views.items()})
            if self.bias is not None:
                found[f"{prefix}.bias"] = self.bias.detach()[start : start + size]
            start += size
        return found

    def process_weights_after_loading(self) -> None:
        """Let the scheme pack what was loaded."""
        self.scheme.after_loading(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in_features] to [..., all output features]."""
        return self.scheme.apply(self, x, self.bias)


class Linear(MergedLinear):
    """One linear layer."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        bias: bool,
        config: RuntimeConfig,
        prefix: str,
    ) -> None:
        name = prefix.rpartition(".")[2]
        super().__init__(in_features, {name: out_features}, bias=bias, config=config, prefix=prefix)
