"""The compiled kernels as providers of the core's ops.

Each function takes the op's arguments, makes the result and has the kernel write to it. What a
kernel does not take (another dtype, strides, many rows) is left to torch by its predicate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from runtime.core.ops.registry import register_provider
from runtime.platforms.cpu.kernels import operators, why_missing

PROVIDER = "kernels"

DTYPES = frozenset({torch.float32, torch.bfloat16, torch.float16})

LINEAR_ROWS = 16
"""Up to so many rows, reading the weights is what a product costs, and each is read once here.

Above, torch's oneDNN has the faster arithmetic: docs/design/cpu-kernels.md has the figures.
"""


def takes_rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> bool:
    """Contiguous rows of a narrow or single float."""
    return x.dtype in DTYPES and weight.dtype == x.dtype and x.is_contiguous()


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """See :mod:`runtime.core.ops.rms_norm`."""
    out = torch.empty_like(x)
    operators().rms_norm.default(x, weight, out, eps)
    return out


def takes_fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> bool:
    """Contiguous rows, both."""
    return takes_rms_norm(x, weight, eps) and residual.dtype == x.dtype and residual.is_contiguous()


def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """See :mod:`runtime.core.ops.fused_add_rms_norm`."""
    out, total = torch.empty_like(x), torch.empty_like(x)
    operators().fused_add_rms_norm.default(x, residual, weight, out, total, eps)
    return out, total


def takes_silu_and_mul(x: torch.Tensor) -> bool:
    """Contiguous rows."""
    return x.dtype in DTYPES and x.is_contiguous()


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """See :mod:`runtime.core.ops.silu_and_mul`."""
    out = x.new_empty((*x.shape[:-1], x.shape[-1] // 2))
    operators().silu_and_mul.default(x, out)
    return out


takes_gelu_tanh_and_mul = takes_silu_and_mul


def gelu_tanh_and_mul(x: torch.Tensor) -> torch.Tensor:
    """See :mod:`runtime.core.ops.gelu_tanh_and_mul`."""
    out = x.new_empty((*x.shape[:-1], x.shape[-1] // 2))
    operators().gelu_tanh_and_mul.default(x, out)
    return out


def whole_heads(x: torch.Tensor) -> bool:
    """[T, heads, size] whose heads are contiguous in a token, as in a part of merged outputs."""
    return x.stride(2) == 1 and x.stride(1) == x.shape[2]


def takes_rotary_embedding(
    query: torch.Tensor, key: torch.Tensor, positions: torch.Tensor, cos_sin_cache: torch.Tensor
) -> bool:
    """Contiguous heads and a table of their dtype."""
    return (
        query.dtype in DTYPES
        and key.dtype == query.dtype
        and cos_sin_cache.dtype == query.dtype
        and whole_heads(query)
        and whole_heads(key)
        and positions.is_contiguous()
    )


def rotary_embedding(
    query: torch.Tensor, key: torch.Tensor, positions: torch.Tensor, cos_sin_cache: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """See :mod:`runtime.core.ops.rotary_embedding`."""
    query_out, key_out = query.new_empty(query.shape), key.new_empty(key.shape)
    operators().rotary_embedding.default(query, key, positions, cos_sin_cache, query_out, key_out)
    return query_out, key_out


def takes_write_kv_cache(
    key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, slot_mapping: torch.Tensor
) -> bool:
    """Contiguous heads and cache of one dtype."""
    return (
        key.dtype in DTYPES
        and value.dtype == key.dtype
        and kv_cache.dtype == key.dtype
        and whole_heads(key)
        and whole_heads(value)
        and kv_cache.is_contiguous()
        and slot_mapping.is_contiguous()
    )


def write_kv_cache(
    key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, slot_mapping: torch.Tensor
) -> None:
    """See :mod:`runtime.core.ops.write_kv_cache`."""
    operators().write_kv_cache.default(key, value, kv_cache, slot_mapping)


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
    return takes_rotary_embedding(query, key, positions, cos_sin_cache) and takes_write_kv_cache(
        key, value, kv_cache, slot_mapping
    )


def rotary_write_kv_cache(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    kv_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> torch.Tensor:
    """See :mod:`runtime.core.ops.rotary_write_kv_cache`."""
    out = query.new_empty(query.shape)
    operators().rotary_write_kv_cache.default(
        query, key, value, positions, cos_sin_cache, kv_cache, slot_mapping, out
    )
    return out


def takes_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> bool:
    """Few contiguous rows."""
    return (
        x.dtype in DTYPES
        and weight.dtype == x.dtype
        and x.numel() <= LINEAR_ROWS * x.shape[-1]
        and x.is_contiguous()
        and weight.is_contiguous()
    )


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """See :mod:`runtime.core.ops.linear`."""
    out = x.new_empty((*x.shape[:-1], weight.shape[0]))
    operators().linear.default(x, weight, bias, out)
    return out


def takes_paged_attention(
    query: torch.Tensor, kv_cache: torch.Tensor, block_table: torch.Tensor, *rest: Any
) -> bool:
    """Contiguous heads, cache and block table; queries and cache of one dtype."""
    return (
        query.dtype in DTYPES
        and kv_cache.dtype == query.dtype
        and whole_heads(query)
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


def takes_greedy_sample(logits: torch.Tensor) -> bool:
    """Contiguous rows."""
    return logits.dtype in DTYPES and logits.is_contiguous()


def greedy_sample(logits: torch.Tensor) -> torch.Tensor:
    """See :mod:`runtime.core.ops.greedy_sample`."""
    out = logits.new_empty(logits.shape[:1], dtype=torch.int64)
    operators().greedy_sample.default(logits, out)
    return out


def takes_sample_tokens(logits: torch.Tensor, *columns: torch.Tensor) -> bool:
    """Contiguous rows, and parameters of single precision."""
    temperature, top_k, *rest = columns
    return (
        takes_greedy_sample(logits)
        and top_k.dtype == torch.int32
        and all(x.dtype == torch.float32 for x in (temperature, *rest))
        and all(x.is_contiguous() for x in columns)
    )


def sample_tokens(logits: torch.Tensor, *columns: torch.Tensor) -> torch.Tensor:
    """See :mod:`runtime.core.ops.sample_tokens`."""
    out = logits.new_empty(logits.shape[:1], dtype=torch.int64)
    operators().sample_tokens.default(logits, *columns, out)
    return out


def takes_apply_penalties(logits: torch.Tensor, *rest: torch.Tensor) -> bool:
    """Contiguous rows, and penalties of single precision."""
    return (
        takes_greedy_sample(logits)
        and all(x.dtype == torch.int32 for x in rest[:3])
        and all(x.dtype == torch.float32 for x in rest[3:])
        and all(x.is_contiguous() for x in rest)
    )


def apply_penalties(logits: torch.Tensor, *rest: torch.Tensor) -> None:
    """See :mod:`runtime.core.ops.apply_penalties`."""
    operators().apply_penalties.default(logits, *rest)


def takes_embedding(token_ids: torch.Tensor, weight: torch.Tensor) -> bool:
    """A contiguous table."""
    return (
        token_ids.dtype == torch.int32
        and token_ids.dim() == 1
        and token_ids.is_contiguous()
        and weight.dtype in DTYPES
        and weight.is_contiguous()
    )


def embedding(token_ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """See :mod:`runtime.core.ops.embedding`."""
    out = weight.new_empty((len(token_ids), weight.shape[1]))
    operators().embedding.default(token_ids, weight, out)
    return out


_PROVIDERS: tuple[tuple[Callable[..., Any], Callable[..., bool]], ...] = (
    (apply_penalties, takes_apply_penalties),
    (embedding, takes_embedding),
    (fused_add_rms_norm, takes_fused_add_rms_norm),
    (gelu_tanh_and_mul, takes_gelu_tanh_and_mul),
    (greedy_sample, takes_greedy_sample),
    (linear, takes_linear),
    (paged_attention, takes_paged_attention),
    (rms_norm, takes_rms_norm),
    (rotary_embedding, takes_rotary_embedding),
    (rotary_write_kv_cache, takes_rotary_write_kv_cache),
    (sample_tokens, takes_sample_tokens),
    (silu_and_mul, takes_silu_and_mul),
    (write_kv_cache, takes_write_kv_cache),
)


def register_ops() -> None:
    """Make the kernels known to the core's registry, loaded or not: it keeps the reason."""
    for function, takes in _PROVIDERS:
        register_provider(
            function.__name__,
            provider=PROVIDER,
            device_type="cpu",
            available=why_missing,
            supports=takes,
        )(function)
