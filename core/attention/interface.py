"""Attention backends: what one says of a layer, and how it computes a ragged batch."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar

from runtime.core.kv_cache.spec import FullAttentionSpec, KVCacheSpec, SlidingWindowSpec

if TYPE_CHECKING:
    import torch

    from runtime.core.config.runtime import RuntimeConfig


class GraphSupport(IntEnum):
    """Which batches a backend can run inside a captured graph; each includes those before.

    For such batches the metadata's tensors must be the batch's own, or buffers of the builder that
    are at the same address for every batch of that size: a graph reads where it read at capture.
    """

    NEVER = 0
    UNIFORM_SINGLE_TOKEN_DECODE = 1
    UNIFORM_BATCH = 2
    ALWAYS = 3


@dataclass(frozen=True)
class AttentionSpec:
    """One attention layer, as a backend needs to know it."""

    num_heads: int
    num_kv_heads: int
    head_size: int
    scale: float
    dtype: torch.dtype
    kv_cache_dtype: torch.dtype
    block_size: int
    sliding_window: int | None = None
    """A token sees itself and this many minus one before it; None is all."""
    logits_soft_cap: float | None = None
    """``cap * tanh(logits / cap)`` before the mask; None is none."""


@dataclass
class BatchMetadata:
    """A ragged batch, the same for all layers of one KV cache group.

    ``R`` requests, ``T`` tokens. Request ``r`` computes tokens ``query_start_loc[r]`` to
    ``query_start_loc[r + 1]`` of the batch, which are the last ones of its ``seq_lens[r]``.
    The host copies are there so that no backend needs to wait for the device.
    """

    num_reqs: int
    num_tokens: int
    num_decodes: int
    """Requests with a single token; they come first, so that their tokens are a slice."""
    max_query_len: int
    max_seq_len: int
    query_start_loc: torch.Tensor
    """[R + 1] int32."""
    seq_lens: torch.Tensor
    """[R] int32, including the tokens of this step."""
    block_table: torch.Tensor
    """[R, max_blocks] int32: block ids of each request."""
    slot_mapping: torch.Tensor
    """[T] int64: block id x block size + offset where each token's key and value go. Block 0 is
    reserved: padding goes there, and nothing is read from it."""
    query_start_loc_host: torch.Tensor
    seq_lens_host: torch.Tensor


class MetadataBuilder(ABC):
    """Turns a batch into what a backend's kernels take; made once for each KV cache group."""

    def __init__(self, config: RuntimeConfig, spec: AttentionSpec, device: torch.device) -> None:
        self.config = config
        self.spec = spec
        self.device = device

    @abstractmethod
    def build(self, batch: BatchMetadata) -> Any:
        """The backend's own metadata object for one step, shared by the group's layers."""


class AttentionImpl(ABC):
    """The computation of one layer."""

    def __init__(self, spec: AttentionSpec) -> None:
        self.spec = spec

    @abstractmethod
    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        metadata: Any,
    ) -> torch.Tensor:
        """Write keys and values to the cache, then attend.

        query [T, num_heads, head_size], key and value [T, num_kv_heads, head_size] in
        ``spec.dtype``; returns [T, num_heads, head_size].
        """

    def rotate_and_forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        positions: torch.Tensor,
        cos_sin_cache: torch.Tensor,
        kv_cache: torch.Tensor,
        metadata: Any,
    ) -> torch.Tensor:
        """As :meth:`forward`, of a query and key that rotary embedding has yet to turn.

        positions [T] int64 and cos_sin_cache as ``rotary_embedding`` takes them. Default: turns
        them, then calls :meth:`forward`.
        """
        # Here, since this module is read before torch is.
        from runtime.core import ops

        query, key = ops.rotary_embedding(query, key, positions, cos_sin_cache)
        return self.forward(query, key, value, kv_cache, metadata)


class AttentionBackend(ABC):
    """A way to compute attention. Everything here is asked of the class."""

    name: ClassVar[str]
    graph_support: ClassVar[GraphSupport] = GraphSupport.NEVER
    builder_class: ClassVar[type[MetadataBuilder]]
    impl_class: ClassVar[type[AttentionImpl]]

    @classmethod
    @abstractmethod
    def reasons_against(cls, spec: AttentionSpec) -> list[str]:
        """Why this backend cannot compute the layer; empty where it can."""

    @classmethod
    def kv_cache_shape(cls, num_blocks: int, spec: AttentionSpec) -> tuple[int, ...]:
        """Shape of one layer's cache. Default: keys, then values, block by block."""
        return (2, num_blocks, spec.block_size, spec.num_kv_heads, spec.head_size)

    @classmethod
    def kv_cache_spec(cls, spec: AttentionSpec) -> KVCacheSpec:
        """What the layer keeps of its tokens. Default: all of them, or a sliding window's."""
        page_bytes = math.prod(cls.kv_cache_shape(1, spec)) * spec.kv_cache_dtype.itemsize
        if spec.sliding_window is not None:
            return SlidingWindowSpec(spec.block_size, page_bytes, spec.sliding_window)
        return FullAttentionSpec(spec.block_size, page_bytes)
