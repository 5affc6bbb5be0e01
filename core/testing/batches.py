"""Ragged batches for attention, with permuted blocks and spare columns in the block table."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from runtime.core.attention.interface import AttentionSpec, BatchMetadata
from runtime.core.platform.interface import Platform
from runtime.core.testing.tensors import to_device

BATCHES: Mapping[str, Sequence[tuple[int, int]]] = {
    "prefills": ((0, 1), (0, 13), (0, 40)),
    "decodes": ((5, 1), (63, 1), (0, 1), (16, 1)),
    "mixed": ((30, 1), (15, 1), (0, 17), (16, 9), (3, 2)),
    "one token": ((0, 1),),
    "block edges": ((15, 1), (16, 1), (0, 16), (16, 16)),
}
"""By name: tokens computed before and tokens to compute, of each request."""


@dataclass(frozen=True)
class Layer:
    """An attention layer to try."""

    num_heads: int = 4
    num_kv_heads: int = 2
    head_size: int = 64
    block_size: int = 16
    dtype: str = "float32"
    window: int | None = None
    cap: float | None = None

    @property
    def name(self) -> str:
        """In words, for reports."""
        words = [f"heads {self.num_heads}/{self.num_kv_heads} x {self.head_size}"]
        words += [f"block {self.block_size}", self.dtype]
        words += [] if self.window is None else [f"window {self.window}"]
        words += [] if self.cap is None else [f"soft cap {self.cap:g}"]
        return ", ".join(words)

    @property
    def spec(self) -> AttentionSpec:
        """As a backend knows it."""
        dtype: torch.dtype = getattr(torch, self.dtype)
        return AttentionSpec(
            self.num_heads,
            self.num_kv_heads,
            self.head_size,
            self.head_size**-0.5,
            dtype,
            dtype,
            self.block_size,
            self.window,
            self.cap,
        )


@dataclass(frozen=True)
class Piece:
    """Tokens ``start`` to ``stop`` of a request, which one step computes."""

    request: int
    start: int
    stop: int


def host_batch(
    pieces: Sequence[Piece], table: torch.Tensor, block_size: int, padding: int = 0
) -> BatchMetadata:
    """The batch of some pieces, all of its tensors on the host.

    Pieces of one token come first. ``table`` [requests, width] int32 has the blocks of each
    request. ``padding`` requests of one token follow, as the model runner adds them: of length 1
    and in the reserved block 0.
    """
    slots = [
        int(table[piece.request, position // block_size]) * block_size + position % block_size
        for piece in pieces
        for position in range(piece.start, piece.stop)
    ]
    counts = [*(piece.stop - piece.start for piece in pieces), *[1] * padding]
    lengths = [*(piece.stop for piece in pieces), *[1] * padding]
    starts = torch.tensor([0, *itertools.accumulate(counts)], dtype=torch.int32)
    seq_lens = torch.tensor(lengths, dtype=torch.int32)
    own = table[[piece.request for piece in pieces]]
    return BatchMetadata(
        num_reqs=len(counts),
        num_tokens=sum(counts),
        num_decodes=counts.count(1),
        max_query_len=max(counts),
        max_seq_len=max(lengths),
        query_start_loc=starts,
        seq_lens=seq_lens,
        block_table=torch.nn.functional.pad(own, (0, 0, 0, padding)),
        slot_mapping=torch.tensor([*slots, *[0] * padding], dtype=torch.int64),
        query_start_loc_host=starts,
        seq_lens_host=seq_lens,
    )


def block_table(requests: int, width: int, generator: torch.Generator) -> tuple[torch.Tensor, int]:
    """Blocks [requests, width] int32 in random order, and how many blocks the cache must have."""
    order = torch.randperm(requests * width, generator=generator) + 1
    return order.reshape(requests, width).to(torch.int32), requests * width + 1


def batch_on(platform: Platform, batch: BatchMetadata) -> BatchMetadata:
    """A host batch with its tensors copied to the device."""
    return replace(
        batch,
        query_start_loc=to_device(platform, batch.query_start_loc),
        seq_lens=to_device(platform, batch.seq_lens),
        block_table=to_device(platform, batch.block_table),
        slot_mapping=to_device(platform, batch.slot_mapping),
    )


def refill(platform: Platform, target: BatchMetadata, batch: BatchMetadata) -> BatchMetadata:
    """A host batch in the device tensors of another of the same sizes."""
    put = platform.memory.copy_to_device
    put(batch.query_start_loc, target.query_start_loc)
    put(batch.seq_lens, target.seq_lens)
    put(batch.block_table, target.block_table)
    put(batch.slot_mapping, target.slot_mapping)
    return replace(
        batch,
        query_start_loc=target.query_start_loc,
        seq_lens=target.seq_lens,
        block_table=target.block_table,
        slot_mapping=target.slot_mapping,
    )
