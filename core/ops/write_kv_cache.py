"""Writing keys and values to their slots in a paged cache."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from runtime.core.ops.registry import OpDef, Sample, define_op
from runtime.core.ops.samples import ELEMENTWISE, normal


def reference(
    key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, slot_mapping: torch.Tensor
) -> None:
    """Put each token's key and value where its slot is, in place.

    key and value [T, K, D]; kv_cache [2, num_blocks, block_size, K, D], keys first; slot_mapping
    [T] int64: block id x block size + offset. Slots are distinct, but for those in block 0: it is
    reserved, so padding is written there (slot 0) and never read.
    """
    keys, values = kv_cache.flatten(1, 2).unbind(0)
    keys.index_copy_(0, slot_mapping, key.to(kv_cache.dtype))
    values.index_copy_(0, slot_mapping, value.to(kv_cache.dtype))


def fake(
    key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, slot_mapping: torch.Tensor
) -> None:
    """Nothing is returned."""


def samples(dtype: torch.dtype, generator: torch.Generator) -> Iterator[Sample]:
    """Permuted slots over several blocks."""
    for tokens, blocks, block_size, heads, size in (
        (1, 2, 16, 1, 64),
        (17, 5, 16, 3, 64),
        (6, 9, 1, 2, 80),
    ):
        cache = normal((2, blocks, block_size, heads, size), dtype, generator)
        slots = torch.randperm((blocks - 1) * block_size, generator=generator) + block_size
        key = normal((tokens, heads, size), dtype, generator)
        yield key, normal((tokens, heads, size), dtype, generator), cache, slots[:tokens]


write_kv_cache = define_op(
    OpDef(
        name="write_kv_cache",
        schema="(Tensor key, Tensor value, Tensor(a!) kv_cache, Tensor slot_mapping) -> ()",
        reference=reference,
        fake=fake,
        tolerance=ELEMENTWISE,
        samples=samples,
        mutates=("kv_cache",),
    )
)
