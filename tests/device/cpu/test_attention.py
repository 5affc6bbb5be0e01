"""Paged attention where it is split: long contexts, long prompts, many heads for one of keys."""

import pytest
import torch

from runtime.core import ops


def batch(requests, heads, kv_heads, size, block_size, dtype, generator):
    """Arguments up to query_start_loc, for requests of (computed, new) tokens."""
    lengths = torch.tensor([computed + new for computed, new in requests], dtype=torch.int32)
    new = torch.tensor([new for _, new in requests])
    width = -(-int(lengths.max()) // block_size)
    blocks = len(requests) * width + 1
    table = torch.randperm(blocks - 1, generator=generator)[: len(requests) * width] + 1
    starts = torch.cat((torch.zeros(1, dtype=torch.int64), new.cumsum(0))).to(torch.int32)
    query = torch.randn(int(new.sum()), heads, size, generator=generator).to(dtype)
    cache = torch.randn(2, blocks, block_size, kv_heads, size, generator=generator).to(dtype)
    return query, cache, table.to(torch.int32).view(len(requests), width), lengths, starts


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("requests", "heads", "kv_heads", "size", "window", "cap"),
    [
        ([(1499, 1), (511, 1), (512, 1), (0, 1)], 6, 2, 64, None, None),
        ([(1100, 1), (40, 1)], 4, 4, 80, 700, 20.0),
        ([(0, 300), (70, 130)], 9, 3, 64, None, None),
        ([(0, 200)], 6, 1, 24, 37, None),
        ([(3, 3), (700, 1)], 128, 1, 40, None, 5.0),
    ],
)
def test_long_ones(isa, kernels, generator, dtype, requests, heads, kv_heads, size, window, cap):
    arguments = batch(requests, heads, kv_heads, size, 16, dtype, generator)
    out = torch.empty_like(arguments[0])
    kernels.paged_attention(*arguments, out, size**-0.5, window or 0, cap or 0.0)
    exact = [a.double() if a.is_floating_point() else a for a in arguments]
    expected = ops.paged_attention.definition.reference(*exact, size**-0.5, window, cap)
    tolerance = ops.paged_attention.definition.tolerance[dtype]
    torch.testing.assert_close(out.double(), expected, rtol=tolerance.rtol, atol=tolerance.atol)


def test_a_request_is_the_same_in_any_batch_and_on_any_threads(kernels, generator):
    requests = [(1200, 1), (30, 1), (0, 50)]
    query, cache, table, lengths, starts = batch(requests, 6, 2, 64, 16, torch.float32, generator)
    outs = []
    for threads in (1, 4):
        kernels.use_threads(threads)
        out = torch.empty_like(query)
        args = (query, cache, table, lengths, starts, out)
        kernels.paged_attention(*args, 0.125, 0, 0.0)
        outs.append(out)
    assert torch.equal(*outs)
    for row in range(3):
        part = slice(int(starts[row]), int(starts[row + 1]))
        own = torch.empty_like(query[part])
        alone = torch.tensor([0, own.shape[0]], dtype=torch.int32)
        table_of, length = table[row : row + 1], lengths[row : row + 1]
        kernels.paged_attention(query[part], cache, table_of, length, alone, own, 0.125, 0, 0.0)
        assert torch.equal(own, outs[0][part])


def test_what_is_not_the_requests_own_is_not_read(isa, kernels, generator):
    """Positions past a request's length and blocks of others may hold anything."""
    query, cache, table, lengths, starts = batch(
        [(20, 1), (0, 21)], 4, 2, 32, 16, torch.float32, generator
    )
    poisoned = torch.full_like(cache, torch.nan)
    for row in range(2):
        for position in range(21):
            where = (slice(None), int(table[row, position // 16]), position % 16)
            poisoned[where] = cache[where]
    outs = []
    for keys in (cache, poisoned):
        out = torch.empty_like(query)
        kernels.paged_attention(query, keys, table, lengths, starts, out, 0.2, 0, 0.0)
        outs.append(out)
    assert torch.equal(*outs)


def quantized(cache, kernels):
    """The cache as bytes with scales, written by the kernel; and what it means, in float64."""
    _, blocks, block_size, heads, size = cache.shape
    stored = torch.zeros(2, blocks, block_size, heads, size + 4, dtype=torch.int8)
    slots = torch.arange(blocks * block_size)
    kernels.write_kv_cache(cache[0].flatten(0, 1), cache[1].flatten(0, 1), stored, slots)
    scale = stored[..., size:].contiguous().view(torch.float32).double()
    return stored, stored[..., :size].double() * scale


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("requests", "heads", "kv_heads", "size", "window", "cap"),
    [
        ([(1499, 1), (511, 1), (0, 1)], 6, 2, 64, None, None),
        ([(0, 300), (70, 130), (9, 1)], 9, 3, 64, None, None),
        ([(40, 1), (3, 30)], 4, 1, 36, 37, 5.0),
    ],
)
def test_bytes_with_scales(
    isa, kernels, generator, dtype, requests, heads, kv_heads, size, window, cap
):
    query, cache, *rest = batch(requests, heads, kv_heads, size, 16, dtype, generator)
    stored, meant = quantized(cache, kernels)
    # Rounded to the nearest of 255 steps.
    assert ((meant - cache.double()).abs() <= cache.double().abs().amax(-1, True) / 253).all()
    out = torch.empty_like(query)
    kernels.paged_attention(query, stored, *rest, out, size**-0.5, window or 0, cap or 0.0)
    expected = ops.paged_attention.definition.reference(
        query.double(), meant, *rest, size**-0.5, window, cap
    )
    tolerance = ops.paged_attention.definition.tolerance[dtype]
    torch.testing.assert_close(out.double(), expected, rtol=tolerance.rtol, atol=tolerance.atol)


def test_rotated_keys_are_quantized(isa, kernels, generator):
    query = torch.randn(5, 4, 16, generator=generator)
    key, value = torch.randn(2, 5, 2, 16, generator=generator)
    positions, slots = torch.arange(3, 8), torch.tensor([17, 3, 8, 30, 5])
    table = torch.randn(10, 8, generator=generator)
    plain, stored = torch.zeros(2, 2, 16, 2, 16), torch.zeros(2, 2, 16, 2, 20, dtype=torch.int8)
    outs = torch.empty_like(query), torch.empty_like(query)
    kernels.rotary_write_kv_cache(query, key, value, positions, table, plain, slots, outs[0])
    kernels.rotary_write_kv_cache(query, key, value, positions, table, stored, slots, outs[1])
    assert torch.equal(*outs)
    expected, _ = quantized(plain, kernels)
    assert torch.equal(stored.flatten(1, 2)[:, slots], expected.flatten(1, 2)[:, slots])
