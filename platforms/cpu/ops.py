"""The compiled kernels as providers of the core's ops.

What a kernel does not take (another dtype, strides, many rows) is left to torch by its predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from runtime.core.ops.registry import register_provider
from runtime.platforms.cpu.kernels import operators, why_missing
from runtime.platforms.shared import takes
from runtime.platforms.shared.compiled import CompiledOps

PROVIDER = "kernels"

LINEAR_ROWS = 16
"""Up to so many rows, reading the weights is what a product costs, and each is read once here.

Above, torch's oneDNN has the faster arithmetic: docs/design/cpu-kernels.md has the figures.
"""


def takes_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> bool:
    """Few contiguous rows."""
    return x.dtype in takes.DTYPES and takes.takes_rows(x, weight, LINEAR_ROWS)


def takes_paged_attention(
    query: torch.Tensor, kv_cache: torch.Tensor, block_table: torch.Tensor, *rest: Any
) -> bool:
    """Contiguous heads, cache and block table; queries and cache of one dtype."""
    return (
        query.dtype in takes.DTYPES
        and kv_cache.dtype == query.dtype
        and takes.whole_heads(query)
        and kv_cache.is_contiguous()
        and block_table.is_contiguous()
    )


def paged_attention(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    query_start_loc: torch.Tensor,
    scale: float,
    sliding_window: int | None,
    logits_soft_cap: float | None,
) -> torch.Tensor:
    """See :mod:`runtime.core.ops.paged_attention`."""
    out = query.new_empty(query.shape)
    operators().paged_attention.default(
        query,
        kv_cache,
        block_table,
        seq_lens,
        query_start_loc,
        out,
        scale,
        sliding_window or 0,
        logits_soft_cap or 0.0,
    )
    return out


COMPILED = CompiledOps(operators)

PROVIDERS: Mapping[str, tuple[Callable[..., Any], Callable[..., bool]]] = {
    "apply_penalties": (COMPILED.apply_penalties, takes.takes_apply_penalties),
    "embedding": (COMPILED.embedding, takes.takes_embedding),
    "fused_add_rms_norm": (COMPILED.fused_add_rms_norm, takes.takes_fused_add_rms_norm),
    "gelu_tanh_and_mul": (COMPILED.gelu_tanh_and_mul, takes.takes_gate),
    "greedy_sample": (COMPILED.greedy_sample, takes.takes_logits),
    "linear": (COMPILED.linear, takes_linear),
    "paged_attention": (paged_attention, takes_paged_attention),
    "rms_norm": (COMPILED.rms_norm, takes.takes_rms_norm),
    "rotary_embedding": (COMPILED.rotary_embedding, takes.takes_rotary_embedding),
    "rotary_write_kv_cache": (COMPILED.rotary_write_kv_cache, takes.takes_rotary_write_kv_cache),
    "sample_tokens": (COMPILED.sample_tokens, takes.takes_sample_tokens),
    "silu_and_mul": (COMPILED.silu_and_mul, takes.takes_gate),
    "write_kv_cache": (COMPILED.write_kv_cache, takes.takes_write_kv_cache),
}
"""By op: who computes it, and what it takes."""


def register_ops() -> None:
    """Make the kernels known to the core's registry, loaded or not: it keeps the reason."""
    for name, (function, supports) in PROVIDERS.items():
        register_provider(
            name,
            provider=PROVIDER,
            device_type="cpu",
            available=why_missing,
            supports=supports,
        )(function)
