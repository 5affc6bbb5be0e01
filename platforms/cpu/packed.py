"""Weights packed for the compiled kernels: groups of sixteen rows, read as one stream."""

from __future__ import annotations

from mmap import mmap

import numpy as np
import torch
from torch import nn

from runtime.core.quantization.block_scheme import BlockScheme
from runtime.core.quantization.scheme import WeightOwner
from runtime.platforms.cpu.kernels import operators


class PackedScheme(BlockScheme):
    """Blocks as stored, or values in the model's dtype, packed once they are loaded.

    Serves dense layers too. Products with blocks and ``int8`` rows round each token's input to
    eight bits, a scale for every 32 of them (``include/runtime_kernels/ops/quantize_rows.h``).
    """

    def empty(self, shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
        """Pages of their own, which go back to the system once the weights are packed."""
        size = shape[0] * shape[1] * dtype.itemsize
        return torch.frombuffer(
            mmap(-1, max(size, 1)), dtype=dtype, count=shape[0] * shape[1]
        ).view(shape)

    def after_loading(self, layer: WeightOwner) -> None:
        """Pack each segment; what was loaded is freed."""
        self._kernels = operators()
        for segment in self.segments:
            stored = getattr(layer, segment.parameter)
            name = self._format_name(segment.format)
            packed = _buffer(self._kernels.packed_bytes(name, segment.rows, self.columns))
            rows = stored.detach().view(torch.uint8)
            self._kernels.pack_weight(rows, name, self.columns, packed)
            setattr(layer, segment.parameter, nn.Parameter(packed, requires_grad=False))
        self._linear = self._kernels.packed_linear.default
        self._plan = tuple(
            (s.parameter, self._format_name(s.format), s.rows, s.start, s.stop)
            for s in self.segments
        )

    def _format_name(self, kind: str | None) -> str:
        return kind or str(self.dtype).removeprefix("torch.")

    def apply(self, layer: WeightOwner, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """The products, each written to its columns of the result."""
        if x.dim() != 2 or not x.is_contiguous():
            flat = x.reshape(-1, x.shape[-1]).contiguous()
            return self.apply(layer, flat, bias).view(*x.shape[:-1], -1)
        out = x.new_empty((x.shape[0], self._plan[-1][-1]))
        weights = layer._parameters
        if len(self._plan) == 1:
            parameter, name, rows, _, _ = self._plan[0]
            self._linear(x, weights[parameter], name, rows, bias, out)
            return out
        for parameter, name, rows, start, stop in self._plan:
            part = None if bias is None else bias[start:stop]
            self._linear(x, weights[parameter], name, rows, part, out[:, start:stop])
        return out

    def gather(self, layer: WeightOwner, ids: torch.Tensor) -> torch.Tensor:
        """Rows of a matrix of one segment."""
        ((parameter, name, rows, _, _),) = self._plan
        out = torch.empty((ids.shape[0], self.columns), dtype=self.dtype)
        weight = layer._parameters[parameter]
        self._kernels.packed_embedding.default(ids.to(torch.int32), weight, name, rows, out)
        return out


def _buffer(size: int) -> torch.Tensor:
    """Uninitialised bytes, from numpy: it asks the system for huge pages, torch does not."""
    return torch.from_numpy(np.empty(size, dtype=np.uint8))
