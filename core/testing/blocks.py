"""Random weights in block formats."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch

from runtime.core.quantization.block_formats import LOADABLE, BlockFormat

# Where the float16 factors of a block are, for formats that values cannot be brought into here.
_FACTORS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"q4_K": (0, 2), "q5_K": (0, 2), "q6_K": (208,)}
)


def random_rows(
    kind: BlockFormat, rows: int, columns: int, generator: torch.Generator
) -> torch.Tensor:
    """uint8 [rows, row_bytes] on the host, whose values are about as large as a layer's."""
    if kind.name in LOADABLE:
        values = torch.randn(rows, columns, generator=generator) * columns**-0.5
        return kind.quantize(values)
    count = rows * columns // kind.block
    blocks = torch.randint(
        0, 256, (count, kind.block_bytes), dtype=torch.uint8, generator=generator
    )
    factors = (torch.rand(count, 2, generator=generator) * 1e-4).half().view(torch.uint8)
    for index, at in enumerate(_FACTORS[kind.name]):
        blocks[:, at : at + 2] = factors.view(count, 2, 2)[:, index]
    return blocks.view(rows, -1)
