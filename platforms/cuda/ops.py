"""The compiled kernels as providers of the core's ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from runtime.core.ops.registry import register_provider
from runtime.platforms.cuda.kernels import operators, why_missing
from runtime.platforms.shared import takes
from runtime.platforms.shared.compiled import CompiledOps

PROVIDER = "kernels"

FLOAT8 = torch.float8_e4m3fn
"""What a KV cache may be of, besides the model's own dtype."""

LINEAR_ROWS = 8
"""Up to so many rows, reading the weights is what a product costs; the library's read them once,
and begin while the kernel in front still runs.
"""


def takes_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> bool:
    """Few rows of half-size floats, of a width that 16 bytes divide."""
    return (
        x.dtype in takes.HALVES
        and takes.takes_rows(x, weight, LINEAR_ROWS)
        and weight.shape[1] % 8 == 0
    )


def takes_write_kv_cache(
    key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, slot_mapping: torch.Tensor
) -> bool:
    """Also a cache of float8, to which numbers are rounded, and large ones to its largest."""
    known = kv_cache.dtype in (key.dtype, FLOAT8)
    return known and takes.takes_written(key, value, kv_cache, slot_mapping)


def takes_rotary_write_kv_cache(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    kv_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> bool:
    """What both ops take."""
    return takes.takes_rotary_embedding(
        query, key, positions, cos_sin_cache
    ) and takes_write_kv_cache(key, value, kv_cache, slot_mapping)


_COMPILED = CompiledOps(operators)

PROVIDERS: Mapping[str, tuple[Callable[..., Any], Callable[..., bool]]] = {
    "apply_penalties": (_COMPILED.apply_penalties, takes.takes_apply_penalties),
    "fused_add_rms_norm": (_COMPILED.fused_add_rms_norm, takes.takes_fused_add_rms_norm),
    "gelu_tanh_and_mul": (_COMPILED.gelu_tanh_and_mul, takes.takes_gate),
    "greedy_sample": (_COMPILED.greedy_sample, takes.takes_logits),
    "linear": (_COMPILED.linear, takes_linear),
    "rms_norm": (_COMPILED.rms_norm, takes.takes_rms_norm),
    "rotary_embedding": (_COMPILED.rotary_embedding, takes.takes_rotary_embedding),
    "rotary_write_kv_cache": (_COMPILED.rotary_write_kv_cache, takes_rotary_write_kv_cache),
    "sample_tokens": (_COMPILED.sample_tokens, takes.takes_sample_tokens),
    "silu_and_mul": (_COMPILED.silu_and_mul, takes.takes_gate),
    "write_kv_cache": (_COMPILED.write_kv_cache, takes_write_kv_cache),
}
"""By op: who computes it, and what it takes."""


def register_ops() -> None:
    """Make the kernels known to the core's registry, loaded or not: it keeps the reason."""
    for name, (function, supports) in PROVIDERS.items():
        register_provider(
            name,
            provider=PROVIDER,
            device_type="cuda",
            available=why_missing,
            supports=supports,
        )(function)
