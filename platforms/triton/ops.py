"""Triton kernels as providers of the core's ops, for any device that Triton compiles for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch

from runtime.core.ops.registry import register_provider
from runtime.platforms.shared import takes
from runtime.platforms.triton.available import why_missing

PROVIDER = "triton"

MAX_WIDTH = 16384
"""Elements of a row that a program keeps in registers."""


def takes_rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> bool:
    """Rows that fit a program."""
    return takes.takes_rms_norm(x, weight, eps) and x.shape[-1] <= MAX_WIDTH


def takes_fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> bool:
    """The same, both."""
    taken = takes.takes_fused_add_rms_norm(x, residual, weight, eps)
    return taken and x.shape[-1] <= MAX_WIDTH


def takes_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> bool:
    """One row of a half-size float, and whole blocks of the matrix."""
    return (
        x.dtype in takes.HALVES
        and takes.takes_rows(x, weight, 1)
        and bias is None
        and weight.shape[0] % 4 == 0
        and weight.shape[1] % 1024 == 0
    )


_PROVIDERS: Mapping[str, tuple[str, Callable[..., bool]]] = {
    "fused_add_rms_norm": ("norm", takes_fused_add_rms_norm),
    "gelu_tanh_and_mul": ("gate", takes.takes_gate),
    "linear": ("gemv", takes_linear),
    "rms_norm": ("norm", takes_rms_norm),
    "rotary_embedding": ("rotary", takes.takes_rotary_embedding),
    "rotary_write_kv_cache": ("rotary", takes.takes_rotary_write_kv_cache),
    "silu_and_mul": ("gate", takes.takes_gate),
    "write_kv_cache": ("rotary", takes.takes_write_kv_cache),
}
"""By op: the module here that has it, and what it takes."""


def register_ops(device_type: str) -> None:
    """Make the kernels known for a device type; without Triton the registry keeps the reason."""
    for name, (module, supports) in _PROVIDERS.items():
        register_provider(
            name,
            provider=PROVIDER,
            device_type=device_type,
            available=why_missing,
            supports=supports,
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
