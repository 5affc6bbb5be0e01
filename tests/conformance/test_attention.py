"""Every attention backend against the op's reference, over ragged batches."""

import itertools
from types import SimpleNamespace

import pytest
import torch

from runtime.core import ops
from runtime.core.attention.interface import AttentionSpec, BatchMetadata
from runtime.core.attention.select import candidate_backends
from runtime.platforms.cpu.platform import CpuPlatform
from runtime.platforms.null.platform import NullPlatform

PLATFORMS = {"cpu": CpuPlatform, "null": NullPlatform}
BATCHES = {
    "prefills": [(0, 13), (0, 1), (0, 40)],
    "decodes": [(5, 1), (63, 1), (0, 1), (16, 1)],
    "mixed": [(30, 1), (15, 1), (0, 17), (16, 9), (3, 2)],
    "one-token": [(0, 1)],
    "block-edges": [(15, 1), (16, 1), (0, 16), (16, 16)],
}
WIDTH = 6
"""Columns of a lone request's block table, whatever its length: the same in every step."""
SHAPES = [(4, 4, 64), (9, 3, 64), (4, 1, 80), (8, 2, 128), (1, 1, 24), (2, 2, 256)]


def make_batch(platform, requests, block_size, generator):
    """Metadata of requests of (computed, new) tokens, with permuted blocks and spare columns."""
    device, memory = platform.devices.device(0), platform.memory

    def put(values, dtype):
        host = torch.as_tensor(values, dtype=dtype)
        target = torch.empty(host.shape, dtype=dtype, device=device)
        memory.copy_to_device(host, target)
        return host, target

    requests = sorted(requests, key=lambda request: request[1] > 1)
    lengths = [computed + new for computed, new in requests]
    width = WIDTH if len(requests) == 1 else -(-max(lengths) // block_size) + 2
    order = torch.randperm(len(requests) * width, generator=generator) + 1
    table = order.reshape(len(requests), width).tolist()
    starts = [0, *itertools.accumulate(new for _, new in requests)]
    slots = [
        table[row][position // block_size] * block_size + position % block_size
        for row, (computed, new) in enumerate(requests)
        for position in range(computed, computed + new)
    ]
    seq_lens, query_start = put(lengths, torch.int32), put(starts, torch.int32)
    return BatchMetadata(
        num_reqs=len(requests),
        num_tokens=starts[-1],
        num_decodes=sum(new == 1 for _, new in requests),
        max_query_len=max(new for _, new in requests),
        max_seq_len=max(lengths),
        query_start_loc=query_start[1],
        seq_lens=seq_lens[1],
        block_table=put(table, torch.int32)[1],
        slot_mapping=put(slots, torch.int64)[1],
        query_start_loc_host=query_start[0],
        seq_lens_host=seq_lens[0],
    )


def random_on(platform, shape, dtype, generator):
    host = torch.randn(shape, generator=generator).to(dtype)
    target = torch.empty(shape, dtype=dtype, device=platform.devices.device(0))
    platform.memory.copy_to_device(host, target)
    return target


def run(platform, backend, spec, requests, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    batch = make_batch(platform, requests, spec.block_size, generator)
    blocks = int(batch.block_table.shape[0] * batch.block_table.shape[1]) + 1
    cache = random_on(platform, backend.kv_cache_shape(blocks, spec), dtype, generator)
    shapes = [(batch.num_tokens, n, spec.head_size) for n in (spec.num_heads, spec.num_kv_heads)]
    query = random_on(platform, shapes[0], dtype, generator)
    key = random_on(platform, shapes[1], dtype, generator)
    value = random_on(platform, shapes[1], dtype, generator)
    config = SimpleNamespace(platform=platform)
    builder = backend.builder_class(config, spec, platform.devices.device(0))
    out = backend.impl_class(spec).forward(query, key, value, cache, builder.build(batch))
    to_host = platform.memory.copy_to_host
    host = [to_host(t) for t in (cache, query)]
    expected = ops.paged_attention(
        host[1].double(),
        host[0].double(),
        to_host(batch.block_table),
        batch.seq_lens_host,
        batch.query_start_loc_host,
        spec.scale,
        spec.sliding_window,
        spec.logits_soft_cap,
    )
    return to_host(out), expected


def spec_of(shape, block_size, dtype, window=None, cap=None):
    heads, kv_heads, size = shape
    return AttentionSpec(heads, kv_heads, size, size**-0.5, dtype, dtype, block_size, window, cap)


@pytest.fixture(params=list(PLATFORMS))
def platform(request):
    return PLATFORMS[request.param]()


def check(platform, spec, requests, dtype):
    tolerance = ops.paged_attention.definition.tolerance[dtype]
    with torch.inference_mode():
        for backend in candidate_backends(platform):
            if backend.reasons_against(spec):
                continue
            seed = torch.Generator().seed() % 2**63
            print("seed", seed)  # pytest shows it with a failure
            got, expected = run(platform, backend, spec, requests, dtype, seed)
            torch.testing.assert_close(
                got.double(), expected, rtol=tolerance.rtol, atol=tolerance.atol
            )


@pytest.mark.parametrize("name", list(BATCHES))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(platform, shape, name):
    check(platform, spec_of(shape, 16, torch.float32), BATCHES[name], torch.float32)


@pytest.mark.parametrize("name", list(BATCHES))
@pytest.mark.parametrize("block_size", [1, 8, 32])
@pytest.mark.parametrize(("window", "cap"), [(None, None), (9, None), (1, None), (16, 5.0)])
def test_block_sizes_windows_and_soft_caps(platform, window, cap, block_size, name):
    spec = spec_of((4, 2, 32), block_size, torch.float32, window, cap)
    check(platform, spec, BATCHES[name], torch.float32)


@pytest.mark.parametrize("name", list(BATCHES))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_narrow_dtypes(platform, dtype, name):
    check(platform, spec_of((9, 3, 64), 16, dtype), BATCHES[name], dtype)


@pytest.mark.parametrize("window", [None, 7])
def test_a_decode_is_the_last_row_of_a_prefill(platform, window):
    spec = spec_of((4, 2, 32), 8, torch.float32, window)
    with torch.inference_mode():
        for backend in candidate_backends(platform):
            generator = torch.Generator().manual_seed(3)
            keys, values = (
                random_on(platform, (30, 2, 32), torch.float32, generator) for _ in "kv"
            )
            query = random_on(platform, (30, 4, 32), torch.float32, generator)
            config = SimpleNamespace(platform=platform)
            builder = backend.builder_class(config, spec, platform.devices.device(0))
            rows = []
            for steps in ([(0, 30)], [(0, 29), (29, 1)], [(0, 11), (11, 18), (29, 1)]):
                cache = torch.zeros(
                    backend.kv_cache_shape(8, spec), device=platform.devices.device(0)
                )
                for computed, new in steps:
                    same_blocks = torch.Generator().manual_seed(1)
                    batch = make_batch(platform, [(computed, new)], 8, same_blocks)
                    part = slice(computed, computed + new)
                    out = backend.impl_class(spec).forward(
                        query[part], keys[part], values[part], cache, builder.build(batch)
                    )
                rows.append(platform.memory.copy_to_host(out[-1]))
            torch.testing.assert_close(rows[0], rows[1], rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(rows[0], rows[2], rtol=1e-5, atol=1e-5)


def test_padding_rows_of_the_reference_are_zeros():
    generator = torch.Generator().manual_seed(0)
    for sample in ops.paged_attention.definition.samples(torch.float32, generator):
        out = ops.paged_attention(*sample)
        assert out[:-2].abs().sum() > 0
        assert not out[-2:].any()
