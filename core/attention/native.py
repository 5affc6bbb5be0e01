"""The native attention backend: paged attention in plain PyTorch, for any torch device."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from runtime.core import ops
from runtime.core.attention.interface import (
    AttentionBackend,
    AttentionImpl,
    AttentionSpec,
    BatchMetadata,
    MetadataBuilder,
)


@dataclass(frozen=True)
class NativePart:
    """Requests that are computed in one call: all decodes together, each prefill alone.

    ``B`` requests of ``L`` tokens each, against ``S`` key positions.
    """

    start: int
    stop: int
    """Their tokens in the batch: B x L of them."""
    blocks: torch.Tensor
    """[B, n] int64: block ids that hold the S = n x block_size positions."""
    visible: torch.Tensor
    """[B, 1, L, S] bool: which positions each token sees."""


@dataclass(frozen=True)
class NativeMetadata:
    """One step, for all layers of a group."""

    parts: tuple[NativePart, ...]
    slot_mapping: torch.Tensor


class NativeMetadataBuilder(MetadataBuilder):
    """Computes block ids and masks once a step, from lengths that the host knows."""

    def build(self, batch: BatchMetadata) -> NativeMetadata:
        """The parts of a batch."""
        starts = batch.query_start_loc_host.tolist()
        lengths = batch.seq_lens_host.tolist()
        parts = []
        if batch.num_decodes:
            parts.append(self._part(batch, 0, batch.num_decodes, 0, lengths, 1))
        for row in range(batch.num_decodes, batch.num_reqs):
            count = starts[row + 1] - starts[row]
            parts.append(self._part(batch, row, row + 1, starts[row], lengths, count))
        return NativeMetadata(tuple(parts), batch.slot_mapping)

    def _part(
        self, batch: BatchMetadata, row: int, end: int, start: int, lengths: list[int], count: int
    ) -> NativePart:
        size, window = self.spec.block_size, self.spec.sliding_window
        firsts = [0 if window is None else max(0, n - count - window + 1) // size for n in lengths]
        width = max(-(-lengths[r] // size) - firsts[r] for r in range(row, end))
        seq_lens = batch.seq_lens[row:end].to(torch.int64)[:, None]
        first = torch.zeros_like(seq_lens)
        if window is not None:
            first = (seq_lens - count - window + 1).clamp_min(0) // size
        # A shorter request's columns run past its own: they are masked, but must exist.
        columns = first + torch.arange(width, device=self.device)
        columns = columns.clamp_max(batch.block_table.shape[1] - 1)
        blocks = batch.block_table[row:end].to(torch.int64).gather(1, columns)
        key_position = first * size + torch.arange(width * size, device=self.device)
        position = seq_lens - count + torch.arange(count, device=self.device)
        visible = key_position[:, None, :] <= position[:, :, None]
        if window is not None:
            visible = visible & (key_position[:, None, :] > position[:, :, None] - window)
        return NativePart(start, start + (end - row) * count, blocks, visible[:, None])


class NativeAttention(AttentionImpl):
    """Gathers the blocks, then torch's scaled dot-product attention."""

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        metadata: NativeMetadata,
    ) -> torch.Tensor:
        """Write keys and values, then attend part by part."""
        ops.write_kv_cache(key, value, kv_cache, metadata.slot_mapping)
        outputs = [self._attend(query, kv_cache, part) for part in metadata.parts]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def _attend(
        self, query: torch.Tensor, kv_cache: torch.Tensor, part: NativePart
    ) -> torch.Tensor:
        spec = self.spec
        count, width = part.blocks.shape
        kv_heads, size = spec.num_kv_heads, spec.head_size
        group = spec.num_heads // kv_heads
        # [2, B, S, K, D] -> keys and values [B, K, S, D]
        cached = kv_cache.index_select(1, part.blocks.flatten())
        cached = cached.view(2, count, width * spec.block_size, kv_heads, size).transpose(2, 3)
        keys, values = cached.to(query.dtype).unbind(0)
        own = query[part.start : part.stop]
        length = own.shape[0] // count
        # The queries of one key head attend as so many positions of one head: [B, K, G x L, D].
        grouped = own.view(count, length, kv_heads, group, size).permute(0, 2, 3, 1, 4)
        grouped = grouped.reshape(count, kv_heads, group * length, size)
        visible = part.visible
        if length > 1 and group > 1:
            visible = visible.repeat(1, 1, group, 1)
        out = self._softmax_sum(grouped, keys, values, visible)
        out = out.view(count, kv_heads, group, length, size).permute(0, 3, 1, 2, 4)
        return out.reshape(count * length, spec.num_heads, size)

    def _softmax_sum(
        self,
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        visible: torch.Tensor,
    ) -> torch.Tensor:
        cap = self.spec.logits_soft_cap
        if cap is None:
            return F.scaled_dot_product_attention(
                query, keys, values, attn_mask=visible, scale=self.spec.scale
            )
        logits = torch.matmul(query, keys.transpose(-1, -2)).float() * self.spec.scale
        logits = cap * torch.tanh(logits / cap)
        weights = torch.softmax(logits.masked_fill(~visible, -torch.inf), dim=-1)
        return torch.matmul(weights.to(values.dtype), values)


class NativeBackend(AttentionBackend):
    """Serves every layer on every device."""

    name = "native"
    builder_class = NativeMetadataBuilder
    impl_class = NativeAttention

    @classmethod
    def reasons_against(cls, spec: AttentionSpec) -> list[str]:
        """A cache of whole numbers: there is no scale in it."""
        if spec.kv_cache_dtype.is_floating_point:
            return []
        return [f"the KV cache is {spec.kv_cache_dtype}, which is no floating-point dtype"]
