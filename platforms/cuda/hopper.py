"""The attention backend of devices of compute capability 9.0: all by compiled kernels."""

from __future__ import annotations

import torch

from runtime.core.attention.interface import (
    AttentionBackend,
    AttentionSpec,
    BatchMetadata,
    GraphSupport,
)
from runtime.platforms.cuda.kernels import operators, why_missing
from runtime.platforms.cuda.split_kv import (
    SplitKvAttention,
    SplitKvMetadataBuilder,
    reasons_against_decodes,
)
from runtime.platforms.triton.attention import TritonMetadata

CAPABILITY = 9
"""Major compute capability whose matrix units the kernel is written for."""

ROWS = 128
"""Tokens of a tile."""

MIN_BLOCK = 8
"""Slots of a block that are copied at once."""


class HopperMetadataBuilder(SplitKvMetadataBuilder):
    """With the compiled kernels' tiles and parts."""

    def prefill_rows(self) -> int:
        """Tokens of a tile."""
        return ROWS

    def _prompts(self, batch: BatchMetadata) -> int:
        """Whole prompts are attended to like others."""
        return 0


class HopperAttention(SplitKvAttention):
    """Prompts by a compiled kernel, too."""

    def _prefill(
        self,
        query: torch.Tensor,
        kv_cache: torch.Tensor,
        metadata: TritonMetadata,
        out: torch.Tensor,
    ) -> None:
        spec, batch = self.spec, metadata.batch
        operators().paged_prefill.default(
            query,
            kv_cache,
            batch.block_table,
            batch.seq_lens,
            batch.query_start_loc,
            metadata.tile_request,
            metadata.tile_first,
            out,
            spec.scale,
            spec.sliding_window or 0,
            spec.logits_soft_cap or 0.0,
        )


class HopperBackend(AttentionBackend):
    """For half-size floats and heads of 64 or 128 elements."""

    name = "hopper"
    graph_support = GraphSupport.UNIFORM_SINGLE_TOKEN_DECODE
    builder_class = HopperMetadataBuilder
    impl_class = HopperAttention

    @classmethod
    def reasons_against(cls, spec: AttentionSpec) -> list[str]:
        """Those against decodes, an older or newer device, other heads and blocks."""
        reasons = reasons_against_decodes(spec)
        if why_missing() is not None:
            return reasons
        major, minor = torch.cuda.get_device_capability()
        if major != CAPABILITY:
            reasons.append(f"compute capability {major}.{minor} is not {CAPABILITY}.0")
        if spec.kv_cache_dtype != spec.dtype:
            reasons.append(f"prompts need a KV cache of {spec.dtype}")
        if spec.head_size not in (64, 128):
            reasons.append(f"head size {spec.head_size} is neither 64 nor 128")
        if spec.block_size < MIN_BLOCK or spec.block_size & (spec.block_size - 1):
            reasons.append(f"block size {spec.block_size} is no power of two from {MIN_BLOCK} on")
        return reasons
