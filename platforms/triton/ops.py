"""Triton kernels as providers of the core's ops, for any device that Triton compiles for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch

from runtime.core.ops.registry import register_provider
from runtime.platforms.triton.available import why_missing

PROVIDER = "triton"

DTYPES = frozenset({torch.float32, torch.bfloat16, torch.float16})

HALVES = frozenset({torch.bfloat16, torch.float16})

MAX_WIDTH = 16384
"""Elements of a row that a program keeps in registers."""


def takes_rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> bool:
    """Contiguous rows that fit a program."""
    return (
        x.dtype in DTYPES
        and weight.dtype == x.dtype
        and x.is_contiguous()
        and x.shape[-1] <= MAX_WIDTH
    )


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


def takes_rotary_write_kv_cache(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    kv_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> bool:
    """Both."""
    return takes_rotary_embedding(query, key, positions, cos_sin_cache) and takes_write_kv_cache(
        key, value, kv_cache, slot_mapping
    )


def takes_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> bool:
    """One row of a half-size float, and whole blocks of the matrix."""
    return (
        x.numel() == x.shape[-1]
        and bias is None
        and x.dtype in HALVES
        and weight.dtype == x.dtype
        and weight.shape[0] % 4 == 0
        and weight.shape[1] % 1024 == 0
        and weight.is_contiguous()
        and x.is_contiguous()
    )


_PROVIDERS: Mapping[str, tuple[str, Callable[..., bool]]] = {
    "fused_add_rms_norm": ("norm", takes_fused_add_rms_norm),
    "gelu_tanh_and_mul": ("gate", takes_gate),
    "linear": ("gemv", takes_linear),
    "rms_norm": ("norm", takes_rms_norm),
    "rotary_embedding": ("rotary", takes_rotary_embedding),
    "rotary_write_kv_cache": ("rotary", takes_rotary_write_kv_cache),
    "silu_and_mul": ("gate", takes_gate),
    "write_kv_cache": ("rotary", takes_write_kv_cache),
}
"""By op: the module here that has it, and what it takes."""


def register_ops(device_type: str) -> None:
    """Make the kernels known for a device type; without Triton the registry keeps the reason."""
    for name, (module, takes) in _PROVIDERS.items():
        register_provider(
            name,
            provider=PROVIDER,
            device_type=device_type,
            available=why_missing,
            supports=takes,
        )(lazily(f"runtime.platforms.triton.{module}", name))


@cache
def lazily(module: str, name: str) -> Callable[..., Any]:
    """A function of a module that is imported by its first call; the same one each time."""

    @cache
    def function() -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return found

    def call(*args: Any) -> Any:
        return function()(*args)

    return call
