"""An attention backend with a KV layout of its own: a block's keys and values side by side."""

import logging

import torch
import torch.nn.functional as F

from runtime.core.attention.interface import AttentionBackend, AttentionImpl
from runtime.core.attention.reference import ReferenceMetadataBuilder


class SlateAttention(AttentionImpl):
    """One request after the other, over a cache [blocks, 2, block_size, kv_heads, head_size]."""

    rows = 512  # Queries that are computed at once, where the runner has not said how many.

    def forward(self, query, key, value, kv_cache, metadata):
        size = self.spec.block_size
        blocks, offsets = metadata.slot_mapping // size, metadata.slot_mapping % size
        kv_cache[blocks, 0, offsets] = key
        kv_cache[blocks, 1, offsets] = value
        starts, out = metadata.query_start_loc_host.tolist(), torch.zeros_like(query)
        for row, length in enumerate(metadata.seq_lens_host.tolist()):
            end = starts[row + 1]
            table = metadata.block_table[row, : -(-length // size)].long()
            keys, values = kv_cache[table].transpose(0, 1).flatten(1, 2)[:, :length]
            for first in range(starts[row], end, self.rows):
                part = slice(first, min(first + self.rows, end))
                out[part] = self._attend(query[part], keys, values, length - end + first)
        return out

    def _attend(self, query, keys, values, position):
        own = torch.arange(position, position + query.shape[0])
        visible = torch.arange(keys.shape[0]) <= own[:, None]
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


def follow_the_runner(model):
    """Have each layer of the backend read the step's extras before it computes."""
    layers = [layer for layer in model.modules() if getattr(layer, "backend", None) is SlateBackend]
    for layer in layers:
        layer.register_forward_pre_hook(_read_extras, with_kwargs=True)
    logging.getLogger(__name__).info("%d layers follow the runner", len(layers))


def _read_extras(layer, args, kwargs):
    layer.impl.rows = kwargs.get("ctx", args[-1]).extras["slate"]["rows"]
