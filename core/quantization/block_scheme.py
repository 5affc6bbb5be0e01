"""Weights as blocks of few bits, computed with by the op ``block_linear``."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import torch
from torch import nn

from runtime.core import ops
from runtime.core.config.runtime import RuntimeConfig
from runtime.core.quantization.block_formats import BLOCK_FORMATS, BlockRows
from runtime.core.quantization.scheme import LinearScheme, WeightOwner


@dataclass(frozen=True)
class Segment:
    """Consecutive output features whose weights have one format."""

    parameter: str
    """Name of the layer's parameter that holds them."""
    format: str | None
    """None: values in the model's dtype."""
    start: int
    stop: int

    @property
    def rows(self) -> int:
        """Output features."""
        return self.stop - self.start


class BlockScheme(LinearScheme):
    """A parameter for each segment: uint8 [rows, row_bytes], or dense [rows, in_features].

    A layer that is merged from several tensors has several segments where their formats differ.
    A tensor whose rows are not whole blocks is dense.
    """

    embeds = True

    def __init__(self, config: RuntimeConfig) -> None:
        self.quantization = config.model.quantization
        self.dtype = config.model.dtype
        self.device = config.device()

    def create(self, layer: WeightOwner, out_features: int, in_features: int) -> None:
        """Parameters for the segments that the layer's parts make."""
        self.columns = in_features
        self.segments = self._segments(layer, in_features)
        for segment in self.segments:
            if segment.format is None:
                shape, dtype = (segment.rows, in_features), self.dtype
            else:
                row_bytes = BLOCK_FORMATS[segment.format].row_bytes(in_features)
                shape, dtype = (segment.rows, row_bytes), torch.uint8
            values = self.empty(shape, dtype)
            setattr(layer, segment.parameter, nn.Parameter(values, requires_grad=False))

    def empty(self, shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
        """An uninitialised parameter. Default: torch's."""
        return torch.empty(shape, dtype=dtype, device=self.device)

    def _segments(self, layer: WeightOwner, columns: int) -> tuple[Segment, ...]:
        kinds = [(self._format_of(name, columns), rows) for name, rows in layer.parts().items()]
        found: list[Segment] = []
        start = 0
        for kind, parts in groupby(kinds, key=lambda part: part[0]):
            stop = start + sum(rows for _, rows in parts)
            name = f"weight_{len(found)}" if found else "weight"
            found.append(Segment(name, kind, start, stop))
            start = stop
        return tuple(found)

    def _format_of(self, name: str, columns: int) -> str | None:
        """Dense where nobody asked for blocks, or where rows are not whole ones."""
        kind = None if self.quantization is None else self.quantization.format_of(name)
        return kind if kind is not None and BLOCK_FORMATS[kind].fits(columns) else None

    def rows(
        self, layer: WeightOwner, start: int, stop: int
    ) -> dict[str, torch.Tensor | BlockRows]:
        """Rows of one of the checkpoint's tensors, which are in one segment."""
        segment = next(s for s in self.segments if s.start <= start and stop <= s.stop)
        data = getattr(layer, segment.parameter).detach()
        data = data[start - segment.start : stop - segment.start]
        if segment.format is None:
            return {"weight": data}
        return {"weight": BlockRows(data, BLOCK_FORMATS[segment.format], self.columns)}

    def apply(self, layer: WeightOwner, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """The products with the segments, side by side."""
        outs = []
        for segment in self.segments:
            weight = getattr(layer, segment.parameter)
            part = None if bias is None else bias[segment.start : segment.stop]
            if segment.format is None:
                outs.append(ops.linear(x, weight, part))
            else:
                outs.append(ops.block_linear(x, weight, part, segment.format))
        return outs[0] if len(outs) == 1 else torch.cat(outs, dim=-1)

    def gather(self, layer: WeightOwner, ids: torch.Tensor) -> torch.Tensor:
        """Rows of a matrix of one segment, dequantised."""
        (segment,) = self.segments
        rows: torch.Tensor = getattr(layer, segment.parameter)[ids]
        if segment.format is None:
            return rows
        return BLOCK_FORMATS[segment.format].dequantize(rows).to(self.dtype)
