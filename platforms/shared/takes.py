"""Which arguments a kernel takes, by op; what it does not is left to the next provider.

Kernels read rows and heads of one dtype, contiguous in memory, tokens as far apart as in a
merged projection.
"""

from __future__ import annotations

import torch

HALVES = frozenset({torch.bfloat16, torch.float16})

DTYPES = HALVES | {torch.float32}


def takes_rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> bool:
    """Contiguous rows and a weight of their dtype."""
    return x.dtype in DTYPES and weight.dtype == x.dtype and x.is_contiguous()


def takes_fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> bool:
    """The same, both."""
    return takes_rms_norm(x, weight, eps) and residual.dtype == x.dtype and residual.is_contiguous()


def takes_gate(x: torch.Tensor) -> bool:
    """Contiguous rows."""
    return x.dtype in DTYPES and x.is_contiguous()


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
        and cos_sin_cache.is_contiguous()
    )


def takes_written(
    key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, slot_mapping: torch.Tensor
) -> bool:
    """Contiguous heads of one dtype, and a contiguous cache, of whichever."""
    return (
        key.dtype in DTYPES
        and value.dtype == key.dtype
        and whole_heads(key)
        and whole_heads(value)
        and kv_cache.is_contiguous()
        and slot_mapping.is_contiguous()
    )


def takes_write_kv_cache(
    key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, slot_mapping: torch.Tensor
) -> bool:
    """Contiguous heads and cache of one dtype."""
    return kv_cache.dtype == key.dtype and takes_written(key, value, kv_cache, slot_mapping)


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


def takes_rows(x: torch.Tensor, weight: torch.Tensor, most: int) -> bool:
    """``most`` contiguous rows or fewer, and a contiguous matrix of their dtype."""
    return (
        weight.dtype == x.dtype
        and x.numel() <= most * x.shape[-1]
        and x.is_contiguous()
        and weight.is_contiguous()
    )


def takes_embedding(token_ids: torch.Tensor, weight: torch.Tensor) -> bool:
    """Ids of 32 bits and a contiguous table."""
    return (
        token_ids.dtype == torch.int32
        and token_ids.dim() == 1
        and token_ids.is_contiguous()
        and weight.dtype in DTYPES
        and weight.is_contiguous()
    )


def takes_logits(logits: torch.Tensor) -> bool:
    """Contiguous rows."""
    return logits.dtype in DTYPES and logits.is_contiguous()


def takes_sample_tokens(
    logits: torch.Tensor, temperature: torch.Tensor, top_k: torch.Tensor, *rest: torch.Tensor
) -> bool:
    """Contiguous rows, and parameters of single precision."""
    return (
        takes_logits(logits)
        and top_k.dtype == torch.int32
        and all(x.dtype == torch.float32 for x in (temperature, *rest))
        and all(x.is_contiguous() for x in (temperature, top_k, *rest))
    )


def takes_apply_penalties(logits: torch.Tensor, *rest: torch.Tensor) -> bool:
    """Contiguous rows, and penalties of single precision."""
    return (
        takes_logits(logits)
        and all(x.dtype == torch.int32 for x in rest[:3])
        and all(x.dtype == torch.float32 for x in rest[3:])
        and all(x.is_contiguous() for x in rest)
    )
