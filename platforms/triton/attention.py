"""The attention backend of the Triton kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
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
from runtime.core.config.runtime import RuntimeConfig
from runtime.core.runner.buffers import to_device
from runtime.platforms.shared.takes import DTYPES
from runtime.platforms.triton.available import why_missing

MAX_HEAD_SIZE = 256
MAX_GROUP = 64
"""Query heads of a key head that a program of the decode kernel takes."""

PROGRAMS = 256
"""Programs that a decode is divided into where it has fewer: about two for each multiprocessor."""
MAX_SPLITS = 32


def splits_of(requests: int, kv_heads: int) -> int:
    """Parts that each request's keys are divided into: a power of two."""
    wanted = PROGRAMS // max(1, requests * kv_heads)
    return min(MAX_SPLITS, 1 << max(0, wanted.bit_length() - 1))


def tiles_of(
    starts: np.ndarray[tuple[int], np.dtype[np.int32]], first: int, rows: int
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], np.ndarray[tuple[int], np.dtype[np.int32]]]:
    """Tiles of ``rows`` tokens of each request from ``first`` on: request and first token of each.

    Last tokens come first: they see the most keys, and programs start in this order.
    """
    counts = np.diff(starts)[first:]
    tiles = -(-counts // rows)
    requests = np.repeat(np.arange(first, first + len(counts), dtype=np.int32), tiles)
    ends = np.cumsum(tiles)
    within = np.arange(len(requests), dtype=np.int32) - np.repeat(ends - tiles, tiles)
    place = (within * rows).astype(np.int32)
    order = np.argsort(-place, kind="stable")
    return requests[order], place[order]


@dataclass(frozen=True)
class TritonMetadata:
    """A batch with what the kernels take besides."""

    batch: BatchMetadata
    splits: int
    workspace: tuple[torch.Tensor, torch.Tensor] | None
    tile_request: torch.Tensor | None
    """[tiles] int32; None where all are decodes."""
    tile_first: torch.Tensor | None


class TritonMetadataBuilder(MetadataBuilder):
    """Divides a step among programs, by lengths that the host knows."""

    def __init__(self, config: RuntimeConfig, spec: AttentionSpec, device: torch.device) -> None:
        super().__init__(config, spec, device)
        self._memory = config.platform.memory

    @cached_property
    def _workspace(self) -> tuple[torch.Tensor, torch.Tensor]:
        """For the most parts of any batch; one for all, at one address."""
        spec = self.spec
        # Requests x splits is at most that of a single one, or what PROGRAMS allows.
        parts = max(MAX_SPLITS, PROGRAMS // spec.num_kv_heads) * spec.num_heads
        width = max(16, 1 << (spec.head_size - 1).bit_length())
        out = torch.zeros(parts * width, dtype=torch.float32, device=self.device)
        return out, torch.zeros(parts, dtype=torch.float32, device=self.device)

    def build(self, batch: BatchMetadata) -> TritonMetadata:
        """The batch's parts. The decodes' depend on their number alone, as graphs need."""
        splits = self.splits(batch.num_decodes)
        workspace = self._workspace if splits > 1 else None
        if batch.num_decodes == batch.num_reqs:
            return TritonMetadata(batch, splits, workspace, None, None)
        starts = batch.query_start_loc_host.numpy()
        request, first = (
            to_device(values, torch.int32, self.device, self._memory)
            for values in tiles_of(starts, batch.num_decodes, self.prefill_rows())
        )
        return TritonMetadata(batch, splits, workspace, request, first)

    def splits(self, requests: int) -> int:
        """Parts at most that the keys of each of so many decodes are divided into."""
        return splits_of(requests, self.spec.num_kv_heads)

    def prefill_rows(self) -> int:
        """Tokens of a tile of the kernel for everything but decodes."""
        from runtime.platforms.triton.paged import prefill_rows

        return prefill_rows(self.spec.dtype, self.spec.head_size)


class TritonAttention(AttentionImpl):
    """Decodes in one kernel (and a merge), everything else in another."""

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        metadata: TritonMetadata,
    ) -> torch.Tensor:
        """Write keys and values, then attend."""
        ops.write_kv_cache(key, value, kv_cache, metadata.batch.slot_mapping)
        return self._attend(query, kv_cache, metadata)

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
        """Rotate and write in one pass, then attend."""
        slots = metadata.batch.slot_mapping
        query = ops.rotary_write_kv_cache(
            query, key, value, positions, cos_sin_cache, kv_cache, slots
        )
        return self._attend(query, kv_cache, metadata)

    def _attend(
        self, query: torch.Tensor, kv_cache: torch.Tensor, metadata: TritonMetadata
    ) -> torch.Tensor:
        out = query.new_empty(query.shape)
        if metadata.batch.num_decodes:
            self._decode(query, kv_cache, metadata, out)
        if metadata.tile_request is not None:
            self._prefill(query, kv_cache, metadata, out)
        return out

    def _decode(
        self,
        query: torch.Tensor,
        kv_cache: torch.Tensor,
        metadata: TritonMetadata,
        out: torch.Tensor,
    ) -> None:
        """Attend with the decodes, whose tokens come first; fills their part of ``out``."""
        from runtime.platforms.triton import paged

        spec, batch = self.spec, metadata.batch
        paged.decode(
            query[: batch.num_decodes],
            kv_cache,
            batch.block_table,
            batch.seq_lens,
            out,
            metadata.workspace,
            metadata.splits,
            spec.scale,
            spec.sliding_window,
            spec.logits_soft_cap,
        )

    def _prefill(
        self,
        query: torch.Tensor,
        kv_cache: torch.Tensor,
        metadata: TritonMetadata,
        out: torch.Tensor,
    ) -> None:
        """Attend with the requests that are no decodes; fills their part of ``out``."""
        from runtime.platforms.triton import paged

        spec, batch = self.spec, metadata.batch
        assert metadata.tile_request is not None
        assert metadata.tile_first is not None
        paged.prefill(
            query,
            kv_cache,
            batch.block_table,
            batch.seq_lens,
            batch.query_start_loc,
            metadata.tile_request,
            metadata.tile_first,
            out,
            spec.scale,
            spec.sliding_window,
            spec.logits_soft_cap,
        )


class TritonBackend(AttentionBackend):
    """Split decodes and tiled prefills over the default cache layout."""

    name = "triton"
    graph_support = GraphSupport.UNIFORM_SINGLE_TOKEN_DECODE
    builder_class = TritonMetadataBuilder
    impl_class = TritonAttention

    @classmethod
    def reasons_against(cls, spec: AttentionSpec) -> list[str]:
        """A missing Triton, other dtypes, very large heads or groups."""
        reasons = []
        missing = why_missing()
        if missing is not None:
            reasons.append(missing)
        if spec.dtype not in DTYPES:
            reasons.append(f"dtype {spec.dtype} is not float32, bfloat16 or float16")
        if spec.kv_cache_dtype != spec.dtype:
            reasons.append(f"the KV cache is {spec.kv_cache_dtype}, not {spec.dtype}")
        if spec.head_size > MAX_HEAD_SIZE:
            reasons.append(f"head size {spec.head_size} is above {MAX_HEAD_SIZE}")
        if spec.num_heads // spec.num_kv_heads > MAX_GROUP:
            reasons.append(f"more than {MAX_GROUP} query heads for a key head")
        return reasons
