"""Random weights in block formats."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch

from runtime.core.quantization.block_formats import BlockFormat

# Where the float16 factors of a block are.
_FACTORS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "q4_0": (0,),
        "q4_1": (0, 2),
        "q5_0": (0,),
        "q5_1": (0, 2),
        "q8_0": (0,),
        "q4_K": (0, 2),
        "q5_K": (0, 2),
        "q6_K": (208,),
    }
)


def random_rows(
    kind: BlockFormat, rows: int, columns: int, generator: torch.Generator
) -> torch.Tensor:
    """uint8 [rows, row_bytes] on the host: any bits, with small factors."""
    count = rows if kind.block == 0 else rows * columns // kind.block
    size = (count, kind.row_bytes(columns) * rows // count)
    blocks = torch.randint(0, 256, size, dtype=torch.uint8, generator=generator)
    factors = torch.rand(count, 2, generator=generator) * 1e-3
    if kind.block == 0:
        blocks[:, :4] = factors[:, :1].contiguous().view(torch.uint8)
    else:
        halves = factors.half().view(torch.uint8).view(count, 2, 2)
        for index, at in enumerate(_FACTORS[kind.name]):
            blocks[:, at : at + 2] = halves[:, index]
    return blocks.view(rows, -1)
