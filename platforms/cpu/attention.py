"""The attention backend of the compiled kernels."""

from __future__ import annotations

from dataclasses import replace

import torch

from runtime.core import ops
from runtime.core.attention.interface import (
    AttentionBackend,
    AttentionImpl,
    AttentionSpec,
    BatchMetadata,
    GraphSupport,
    MetadataBuilder,
)
from runtime.platforms.cpu.kernels import why_missing
from runtime.platforms.cpu.ops import COMPILED, paged_attention
from runtime.platforms.shared.takes import DTYPES

MAX_GROUP = 128
"""Query heads of a key head that the kernel takes (kAttentionRows of its table.h)."""


class KernelMetadataBuilder(MetadataBuilder):
    """The batch as it is: the kernel reads lengths and block ids itself."""

    def build(self, batch: BatchMetadata) -> BatchMetadata:
        """The batch, its block table contiguous."""
        if batch.block_table.is_contiguous():
            return batch
        return replace(batch, block_table=batch.block_table.contiguous())


class KernelAttention(AttentionImpl):
    """One kernel call for decodes, prefills and chunks together."""

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__(spec)
        # The core's ops know no scales: these caches go to the kernels alone.
        self.quantized = spec.kv_cache_dtype == torch.int8

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        metadata: BatchMetadata,
    ) -> torch.Tensor:
        """Write keys and values, then attend."""
        if self.quantized:
            COMPILED.write_kv_cache(key, value, kv_cache, metadata.slot_mapping)
        else:
            ops.write_kv_cache(key, value, kv_cache, metadata.slot_mapping)
        return self._attend(query, kv_cache, metadata)

    def rotate_and_forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        positions: torch.Tensor,
        cos_sin_cache: torch.Tensor,
        kv_cache: torch.Tensor,
        metadata: BatchMetadata,
    ) -> torch.Tensor:
        """Rotate and write in one pass, then attend."""
        who = COMPILED if self.quantized else ops
        query = who.rotary_write_kv_cache(
            query, key, value, positions, cos_sin_cache, kv_cache, metadata.slot_mapping
        )
        return self._attend(query, kv_cache, metadata)

    def _attend(
        self, query: torch.Tensor, kv_cache: torch.Tensor, metadata: BatchMetadata
    ) -> torch.Tensor:
        spec = self.spec
        return paged_attention(
            query,
            kv_cache,
            metadata.block_table,
            metadata.seq_lens,
            metadata.query_start_loc,
            spec.scale,
            spec.sliding_window,
            spec.logits_soft_cap,
        )


class KernelBackend(AttentionBackend):
    """Decodes split over keys and heads, prefills in blocks; float32 logits and sums."""

    name = "kernels"
    graph_support = GraphSupport.ALWAYS
    builder_class = KernelMetadataBuilder
    impl_class = KernelAttention

    @classmethod
    def kv_cache_shape(cls, num_blocks: int, spec: AttentionSpec) -> tuple[int, ...]:
        """The default, but that heads of int8 have their scales, of float32, behind them."""
        *rest, size = super().kv_cache_shape(num_blocks, spec)
        return (*rest, size + (4 if spec.kv_cache_dtype == torch.int8 else 0))

    @classmethod
    def reasons_against(cls, spec: AttentionSpec) -> list[str]:
        """Missing kernels, dtypes that they do not read, and very many heads for one of keys."""
        reasons = []
        missing = why_missing()
        if missing is not None:
            reasons.append(missing)
        if spec.dtype not in DTYPES:
            reasons.append(f"dtype {spec.dtype} is not float32, bfloat16 or float16")
        if spec.kv_cache_dtype not in (spec.dtype, torch.int8):
            reasons.append(f"the KV cache is {spec.kv_cache_dtype}, not {spec.dtype} or int8")
        if spec.num_heads // spec.num_kv_heads > MAX_GROUP:
            reasons.append(f"more than {MAX_GROUP} query heads for a key head")
        return reasons
