"""The attention layer that models contain."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from runtime.core.attention.interface import AttentionSpec
from runtime.core.attention.select import select_backend
from runtime.core.config.runtime import RuntimeConfig
from runtime.core.errors import ModelLoadError, PlatformError
from runtime.core.forward_context import ForwardContext


class Rotation(NamedTuple):
    """How rotary embedding turns the tokens of a step."""

    positions: torch.Tensor
    """[T] int64."""
    cos_sin_cache: torch.Tensor
    """As ``rotary_embedding`` takes it."""


class Attention(nn.Module):
    """Causal attention over the paged KV cache, computed by the backend chosen for it."""

    def __init__(
        self,
        num_heads: int,
        num_kv_heads: int,
        head_size: int,
        scale: float,
        *,
        config: RuntimeConfig,
        prefix: str,
        sliding_window: int | None = None,
        logits_soft_cap: float | None = None,
    ) -> None:
        super().__init__()
        if num_heads % num_kv_heads:
            raise ModelLoadError(
                f"num_attention_heads={num_heads} is not a multiple of "
                f"num_key_value_heads={num_kv_heads}"
            )
        self.layer_name = prefix
        self.spec = AttentionSpec(
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_size=head_size,
            scale=scale,
            dtype=config.model.dtype,
            kv_cache_dtype=_cache_dtype(config),
            block_size=config.cache.block_size,
            sliding_window=sliding_window,
            logits_soft_cap=logits_soft_cap,
        )
        self.backend = select_backend(config.platform, self.spec)
        self.impl = self.backend.impl_class(self.spec)
        self.kv_cache: torch.Tensor | None = None
        """Bound by the model runner when the cache is allocated."""

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        ctx: ForwardContext,
        rotation: Rotation | None = None,
    ) -> torch.Tensor:
        """Attend; query [T, H, D], key and value [T, K, D]; returns [T, H * D].

        With a ``rotation``, query and key are turned first.
        """
        assert self.kv_cache is not None, f"{self.layer_name}: no KV cache is bound"
        if ctx.outside is not None:
            out = query.new_empty(query.shape)
            ctx.outside(self, out, query, key, value, *(rotation or ()))
            return out.flatten(1)
        return self.attend(query, key, value, ctx, *(rotation or ())).flatten(1)

    def attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        ctx: ForwardContext,
        *rotation: torch.Tensor,
    ) -> torch.Tensor:
        """By the backend; ``rotation`` is empty or a :class:`Rotation`'s; returns [T, H, D]."""
        cache, metadata = self.kv_cache, ctx.attention[self.layer_name]
        assert cache is not None
        if not rotation:
            return self.impl.forward(query, key, value, cache, metadata)
        positions, table = rotation
        return self.impl.rotate_and_forward(query, key, value, positions, table, cache, metadata)


def _cache_dtype(config: RuntimeConfig) -> torch.dtype:
    name = config.cache.kv_cache_dtype
    if name == "auto":
        return config.model.dtype
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise PlatformError(
            f"kv_cache_dtype={name!r}: platform {config.platform.name!r} offers it, "
            "but it is not the name of a torch dtype"
        )
    return dtype
