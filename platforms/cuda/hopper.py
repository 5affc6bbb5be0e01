"""The attention backend of devices of compute capability 9.0: prompts by the compiled kernel."""

from __future__ import annotations

import torch

from runtime.core.attention.interface import AttentionSpec
from runtime.platforms.cuda.kernels import operators, why_missing
from runtime.platforms.shared.takes import HALVES
from runtime.platforms.triton.attention import (
    TritonAttention,
    TritonBackend,
    TritonMetadata,
    TritonMetadataBuilder,
)

CAPABILITY = 9
"""Major compute capability whose matrix units the kernel is written for."""

ROWS = 128
"""Tokens of a tile."""

MIN_BLOCK = 8
"""Slots of a block that are copied at once."""


class HopperMetadataBuilder(TritonMetadataBuilder):
    """Triton's, with the compiled kernel's tiles."""

    def prefill_rows(self) -> int:
        """Tokens of a tile."""
        return ROWS


class HopperAttention(TritonAttention):
    """Prompts by the compiled kernel, decodes by Triton's."""

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


class HopperBackend(TritonBackend):
    """For half-size floats and heads of 64 or 128 elements."""

    name = "hopper"
    builder_class = HopperMetadataBuilder
    impl_class = HopperAttention

    @classmethod
    def reasons_against(cls, spec: AttentionSpec) -> list[str]:
        """Triton's, an older or newer device, missing kernels, other dtypes, heads and blocks."""
        reasons = super().reasons_against(spec)
        missing = why_missing()
        if missing is not None:
            return [*reasons, missing]
        major, minor = torch.cuda.get_device_capability()
        if major != CAPABILITY:
            reasons.append(f"compute capability {major}.{minor} is not {CAPABILITY}.0")
        if spec.dtype not in HALVES:
            reasons.append(f"dtype {spec.dtype} is not bfloat16 or float16")
        if spec.head_size not in (64, 128):
            reasons.append(f"head size {spec.head_size} is neither 64 nor 128")
        if spec.block_size < MIN_BLOCK or spec.block_size & (spec.block_size - 1):
            reasons.append(f"block size {spec.block_size} is no power of two from {MIN_BLOCK} on")
        return reasons
