"""The ops that every compiled library has, as functions that return what they make.

A library's operators write to tensors that they are given; here those are made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class CompiledOps:
    """Ops by a library's operators; each has the arguments and results of its namesake in
    :mod:`runtime.core.ops`.
    """

    def __init__(self, operators: Callable[[], Any]) -> None:
        """``operators`` gives the library's namespace in ``torch.ops``, once it is loaded."""
        self._operators = operators

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """Normalise rows."""
        out = torch.empty_like(x)
        self._operators().rms_norm.default(x, weight, out, eps)
        return out

    def fused_add_rms_norm(
        self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Normalise sums of rows; the sums are returned too."""
        out, total = torch.empty_like(x), torch.empty_like(x)
        self._operators().fused_add_rms_norm.default(x, residual, weight, out, total, eps)
        return out, total

    def silu_and_mul(self, x: torch.Tensor) -> torch.Tensor:
        """Gate by SiLU."""
        out = x.new_empty((*x.shape[:-1], x.shape[-1] // 2))
        self._operators().silu_and_mul.default(x, out)
        return out

    def gelu_tanh_and_mul(self, x: torch.Tensor) -> torch.Tensor:
        """Gate by GELU."""
        out = x.new_empty((*x.shape[:-1], x.shape[-1] // 2))
        self._operators().gelu_tanh_and_mul.default(x, out)
        return out

    def rotary_embedding(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        positions: torch.Tensor,
        cos_sin_cache: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Rotate queries and keys."""
        query_out, key_out = query.new_empty(query.shape), key.new_empty(key.shape)
        self._operators().rotary_embedding.default(
            query, key, positions, cos_sin_cache, query_out, key_out
        )
        return query_out, key_out

    def write_kv_cache(
        self,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        """Put keys and values into their slots."""
        self._operators().write_kv_cache.default(key, value, kv_cache, slot_mapping)

    def rotary_write_kv_cache(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        positions: torch.Tensor,
        cos_sin_cache: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> torch.Tensor:
        """Both; returns the queries."""
        out = query.new_empty(query.shape)
        self._operators().rotary_write_kv_cache.default(
            query, key, value, positions, cos_sin_cache, kv_cache, slot_mapping, out
        )
        return out

    def linear(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """Multiply rows by a matrix."""
        out = x.new_empty((*x.shape[:-1], weight.shape[0]))
        self._operators().linear.default(x, weight, bias, out)
        return out

    def embedding(self, token_ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Look rows up."""
        out = weight.new_empty((len(token_ids), weight.shape[1]))
        self._operators().embedding.default(token_ids, weight, out)
        return out

    def greedy_sample(self, logits: torch.Tensor) -> torch.Tensor:
        """Choose each row's most likely token."""
        out = logits.new_empty(logits.shape[:1], dtype=torch.int64)
        self._operators().greedy_sample.default(logits, out)
        return out

    def sample_tokens(self, logits: torch.Tensor, *columns: torch.Tensor) -> torch.Tensor:
        """Draw a token of each row."""
        out = logits.new_empty(logits.shape[:1], dtype=torch.int64)
        self._operators().sample_tokens.default(logits, *columns, out)
        return out

    def apply_penalties(self, logits: torch.Tensor, *rest: torch.Tensor) -> None:
        """Penalise the tokens of each row."""
        self._operators().apply_penalties.default(logits, *rest)
