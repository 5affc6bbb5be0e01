"""Triton's backend, with cuDNN's attention for long prompts that are computed from their start."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from runtime.core import ops
from runtime.core.attention.interface import AttentionSpec, BatchMetadata, GraphSupport
from runtime.platforms.shared.takes import HALVES
from runtime.platforms.triton.attention import (
    TritonAttention,
    TritonBackend,
    TritonMetadata,
    TritonMetadataBuilder,
)

STEP = 1024
"""Prompts' lengths are multiples of this, since cuDNN plans for some 50 ms for each new shape.

What a step of a longer prompt computes is such a length where the token budget is one.
"""


@dataclass(frozen=True)
class CudaMetadata(TritonMetadata):
    """Triton's, and whether the keys of the step are all that its tokens see."""

    prompts: int = 0
    """Requests, all of one length, whose keys are contiguous in the step; 0: by Triton."""


class CudaMetadataBuilder(TritonMetadataBuilder):
    """Looks for steps of whole prompts."""

    def build(self, batch: BatchMetadata) -> CudaMetadata:
        """As Triton's."""
        own = super().build(batch)
        fields = {field.name: getattr(own, field.name) for field in dataclasses.fields(own)}
        return CudaMetadata(**fields, prompts=self._prompts(batch))

    def _prompts(self, batch: BatchMetadata) -> int:
        spec, length = self.spec, batch.max_query_len
        if (
            length % STEP
            or batch.num_tokens != length * batch.num_reqs
            or int(batch.seq_lens_host[: batch.num_reqs].max()) != length
            or spec.sliding_window is not None
            or spec.logits_soft_cap is not None
            or spec.dtype not in HALVES
            or spec.head_size not in (64, 128)
        ):
            return 0
        return batch.num_reqs


class CudaAttention(TritonAttention):
    """By cuDNN where the step is whole prompts."""

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        metadata: TritonMetadata,
    ) -> torch.Tensor:
        """Write keys and values, then attend, to the step's own where those are all."""
        prompts = metadata.prompts if isinstance(metadata, CudaMetadata) else 0
        if not prompts:
            return super().forward(query, key, value, kv_cache, metadata)
        ops.write_kv_cache(key, value, kv_cache, metadata.batch.slot_mapping)
        length = query.shape[0] // prompts
        q, k, v = (
            t.view(prompts, length, *t.shape[1:]).transpose(1, 2) for t in (query, key, value)
        )
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]):
            out = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=True, scale=self.spec.scale, enable_gqa=True
            )
        return out.transpose(1, 2).flatten(0, 1)

    def rotate_and_forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        positions: torch.Tensor,
        cos_sin_cache: torch.Tensor,
        kv_cache: torch.Tensor,
        metadata: TritonMetadata,
    ) -> torch.Tensor:
        """The rotated keys are needed besides the cache where they are attended to."""
        if isinstance(metadata, CudaMetadata) and metadata.prompts:
            query, key = ops.rotary_embedding(query, key, positions, cos_sin_cache)
            return self.forward(query, key, value, kv_cache, metadata)
        return super().rotate_and_forward(
            query, key, value, positions, cos_sin_cache, kv_cache, metadata
        )


class CudaBackend(TritonBackend):
    """Serves what Triton's does."""

    name = "cuda"
    graph_support = GraphSupport.UNIFORM_SINGLE_TOKEN_DECODE
    builder_class = CudaMetadataBuilder
    impl_class = CudaAttention

    @classmethod
    def reasons_against(cls, spec: AttentionSpec) -> list[str]:
        """Triton's, and a torch without cuDNN."""
        reasons = super().reasons_against(spec)
        if not torch.backends.cudnn.is_available():  # type: ignore[no-untyped-call]
            reasons.append("torch has no cuDNN")
        return reasons
