"""The attention backend of the compiled split-KV kernel: decodes by it, prompts as without it."""

from __future__ import annotations

import dataclasses
from functools import cached_property

import torch

from runtime.core.attention.interface import AttentionSpec
from runtime.platforms.cuda.attention import CudaAttention, CudaBackend, CudaMetadataBuilder
from runtime.platforms.cuda.kernels import operators, why_missing
from runtime.platforms.cuda.ops import FLOAT8
from runtime.platforms.shared.takes import HALVES
from runtime.platforms.triton.attention import TritonMetadata

FLOAT8_CAPABILITY = (8, 9)
"""Of the first devices that convert it."""

MAX_HEAD_SIZE = 256
MAX_SPLITS = 64
ROWS = 16
"""Query heads of a block, all of one key head."""
PART_TOTALS = 2 * ROWS
"""Numbers that a part of the keys leaves besides its sums."""

BLOCKS = 528
"""Blocks that decodes are divided into where they are fewer: twice what a large GPU has at once."""
FEW, MANY = 64, 512
"""Keys that a part has at least, where parts are there to occupy the GPU, and where they are there
to even out lengths."""


def splits_of(requests: int, kv_heads: int) -> int:
    """Parts at most that each request's keys are divided into."""
    return max(1, min(MAX_SPLITS, -(-BLOCKS // max(1, requests * kv_heads))))


def least_keys_of(requests: int, kv_heads: int) -> int:
    """Keys that each part but the last has at least."""
    return FEW if 2 * requests * kv_heads <= BLOCKS else MANY


class SplitKvMetadataBuilder(CudaMetadataBuilder):
    """With the compiled kernel's workspace."""

    def splits(self, requests: int) -> int:
        """The kernel makes fewer of a request that is short."""
        return splits_of(requests, self.spec.num_kv_heads)

    @cached_property
    def _workspace(self) -> tuple[torch.Tensor, torch.Tensor]:
        """For the most parts of any batch, and counters; one for all, at one address."""
        spec = self.spec
        group = spec.num_heads // spec.num_kv_heads
        tiles = -(-group // ROWS)
        # Requests x key heads x splits: with more than one split, the first two are below BLOCKS.
        most = 2 * max(BLOCKS, spec.num_kv_heads) * tiles
        part = min(group, ROWS) * spec.head_size + PART_TOTALS
        left = torch.zeros(most * part, dtype=torch.float32, device=self.device)
        return left, torch.zeros(most, dtype=torch.int32, device=self.device)


class SplitKvAttention(CudaAttention):
    """Decodes by the compiled kernel."""

    def _decode(
        self,
        query: torch.Tensor,
        kv_cache: torch.Tensor,
        metadata: TritonMetadata,
        out: torch.Tensor,
    ) -> None:
        spec, batch = self.spec, metadata.batch
        requests = batch.num_decodes
        # With one part of each request nothing is written there.
        workspace = metadata.workspace or (batch.seq_lens, batch.seq_lens)
        operators().paged_decode.default(
            query[:requests],
            kv_cache,
            batch.block_table[:requests],
            batch.seq_lens[:requests],
            out[:requests],
            *workspace,
            metadata.splits,
            least_keys_of(requests, spec.num_kv_heads),
            spec.scale,
            spec.sliding_window or 0,
            spec.logits_soft_cap or 0.0,
        )


def reasons_against_decodes(spec: AttentionSpec) -> list[str]:
    """Why the kernel of decodes does not compute a layer: not loaded, other dtypes and heads."""
    missing = why_missing()
    if missing is not None:
        return [missing]
    reasons = []
    if spec.dtype not in HALVES:
        reasons.append(f"dtype {spec.dtype} is not bfloat16 or float16")
    if spec.kv_cache_dtype not in (spec.dtype, FLOAT8):
        reasons.append(f"the KV cache is {spec.kv_cache_dtype}, not {spec.dtype} or {FLOAT8}")
    if spec.head_size % 16 or spec.head_size > MAX_HEAD_SIZE:
        reasons.append(f"head size {spec.head_size} is no multiple of 16 up to {MAX_HEAD_SIZE}")
    return reasons


class SplitKvBackend(CudaBackend):
    """For half-size floats; prompts by cuDNN and Triton."""

    name = "split_kv"
    builder_class = SplitKvMetadataBuilder
    impl_class = SplitKvAttention

    @classmethod
    def reasons_against(cls, spec: AttentionSpec) -> list[str]:
        """Those against the kernels for prompts, and against the one for decodes."""
        own = reasons_against_decodes(spec)
        if spec.kv_cache_dtype == FLOAT8:
            # Prompts' kernels read it as well.
            spec = dataclasses.replace(spec, kv_cache_dtype=spec.dtype)
            if why_missing() is None and torch.cuda.get_device_capability() < FLOAT8_CAPABILITY:
                own.append(f"{FLOAT8} needs compute capability 8.9")
        return list(dict.fromkeys([*super().reasons_against(spec), *own]))
