"""An attention backend with a KV layout of its own: a block's keys and values side by side."""

import torch
import torch.nn.functional as F

from runtime.core.attention.interface import AttentionBackend, AttentionImpl
from runtime.core.attention.reference import ReferenceMetadataBuilder


class SlateAttention(AttentionImpl):
    """One request after the other, over a cache [blocks, 2, block_size, kv_heads, head_size]."""

    def forward(self, query, key, value, kv_cache, metadata):
        size = self.spec.block_size
        blocks, offsets = metadata.slot_mapping // size, metadata.slot_mapping % size
        kv_cache[blocks, 0, offsets] = key
        kv_cache[blocks, 1, offsets] = value
        starts, out = metadata.query_start_loc_host.tolist(), torch.empty_like(query)
        for row, length in enumerate(metadata.seq_lens_host.tolist()):
            part = slice(starts[row], starts[row + 1])
            table = metadata.block_table[row, : -(-length // size)].long()
            keys, values = kv_cache[table].transpose(0, 1).flatten(1, 2)[:, :length]
            out[part] = self._attend(query[part], keys, values)
        return out

    def _attend(self, query, keys, values):
        count, length = query.shape[0], keys.shape[0]
        visible = torch.arange(length) <= torch.arange(length - count, length)[:, None]
        query, keys, values = (tensor.transpose(0, 1) for tensor in (query, keys, values))
        return F.scaled_dot_product_attention(
            query, keys, values, attn_mask=visible, scale=self.spec.scale, enable_gqa=True
        ).transpose(0, 1)


class SlateBackend(AttentionBackend):
    """Serves plain causal layers; the core's backend serves the others."""

    name = "slate"
    builder_class = ReferenceMetadataBuilder  # The batch is its own metadata.
    impl_class = SlateAttention

    @classmethod
    def reasons_against(cls, spec):
        asked = {"sliding_window": spec.sliding_window, "logits_soft_cap": spec.logits_soft_cap}
        return [f"{name} is not implemented" for name, value in asked.items() if value is not None]

    @classmethod
    def kv_cache_shape(cls, num_blocks, spec):
        return (num_blocks, 2, spec.block_size, spec.num_kv_heads, spec.head_size)
