"""Tolerances and random inputs that several ops share."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from runtime.core.ops.registry import Tolerance

ELEMENTWISE: Mapping[torch.dtype, Tolerance] = {
    torch.float32: Tolerance(rtol=1e-5, atol=1e-5),
    torch.float16: Tolerance(rtol=2e-3, atol=2e-3),
    torch.bfloat16: Tolerance(rtol=1.6e-2, atol=1e-2),
}
"""One rounding of the result and float32 arithmetic inside."""

REDUCTION: Mapping[torch.dtype, Tolerance] = {
    torch.float32: Tolerance(rtol=1e-4, atol=2e-5),
    torch.float16: Tolerance(rtol=1e-2, atol=5e-3),
    torch.bfloat16: Tolerance(rtol=3e-2, atol=3e-2),
}
"""Sums of products in any order, with intermediate results in the op's dtype."""

CHOICE: Mapping[torch.dtype, Tolerance] = {
    dtype: Tolerance(rtol=0, atol=0) for dtype in (torch.float32, torch.float16, torch.bfloat16)
}
"""Token ids: equal or not. Samples stay away from ties."""


def normal(
    shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator, scale: float = 1.0
) -> torch.Tensor:
    """A host tensor of normal values."""
    return (torch.randn(shape, generator=generator) * scale).to(dtype)
