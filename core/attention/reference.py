"""The paged attention op as a backend: slow, but of fixed shapes, so that it can be captured."""

from __future__ import annotations

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


class ReferenceMetadataBuilder(MetadataBuilder):
    """The batch is its own metadata: nothing is computed, so all addresses are the buffers'."""

    def build(self, batch: BatchMetadata) -> BatchMetadata:
        """The batch."""
        return batch


class ReferenceAttention(AttentionImpl):
    """Two ops, and no step on the host."""

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        metadata: BatchMetadata,
    ) -> torch.Tensor:
        """Write keys and values, then attend over the whole width of the block table."""
        spec = self.spec
        ops.write_kv_cache(key, value, kv_cache, metadata.slot_mapping)
        out: torch.Tensor = ops.paged_attention(
            query,
            kv_cache,
            metadata.block_table,
            metadata.seq_lens,
            metadata.query_start_loc,
            spec.scale,
            spec.sliding_window,
            spec.logits_soft_cap,
        )
        return out


class ReferenceBackend(AttentionBackend):
    """Serves every layer; a platform lists it where graphs matter more than speed."""

    name = "reference"
    graph_support = GraphSupport.ALWAYS
    builder_class = ReferenceMetadataBuilder
    impl_class = ReferenceAttention

    @classmethod
    def reasons_against(cls, spec: AttentionSpec) -> list[str]:
        """A cache of whole numbers: there is no scale in it."""
        if spec.kv_cache_dtype.is_floating_point:
            return []
        return [f"the KV cache is {spec.kv_cache_dtype}, which is no floating-point dtype"]
