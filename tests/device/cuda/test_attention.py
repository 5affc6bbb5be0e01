"""The shapes of real models, which the conformance suite's small ones do not reach."""

from types import SimpleNamespace

import pytest
import torch

from runtime.core.ops.paged_attention import paged_attention
from runtime.core.testing.batches import Layer
from runtime.core.testing.comparison import deviation
from runtime.platforms.triton.attention import splits_of, tiles_of

pytest.importorskip("triton")


def case(lengths, counts, heads, kv_heads, size, dtype, block_size=16):
    generator = torch.Generator().manual_seed(torch.seed() % 2**63)
    width = -(-max(lengths) // block_size)
    total = len(lengths) * width + 1
    table = (torch.randperm(total - 1, generator=generator) + 1).to(torch.int32)
    table = table.reshape(len(lengths), width)
    starts = torch.tensor([0, *torch.tensor(counts).cumsum(0).tolist()], dtype=torch.int32)
    query = torch.randn((sum(counts), heads, size), generator=generator).to(dtype)
    cache = torch.randn((2, total, block_size, kv_heads, size), generator=generator).to(dtype)
    return query, cache, table, torch.tensor(lengths, dtype=torch.int32), starts


def check(got, arguments, scale, window, dtype, cap=None):
    device = [a.double() if a.is_floating_point() else a for a in arguments]
    device = [a.cuda() for a in device]
    expected = paged_attention.definition.reference(*device, scale, window, cap)
    tolerance = paged_attention.definition.tolerance[dtype]
    found = deviation(got.cpu(), expected.cpu(), tolerance)
    assert found.acceptable, found


@pytest.mark.parametrize("window", [None, 700])
@pytest.mark.parametrize(
    ("requests", "heads", "kv_heads", "size"),
    [(1, 32, 8, 128), (3, 32, 8, 128), (40, 28, 4, 128), (2, 16, 2, 256), (5, 40, 5, 64)],
)
def test_decode(requests, heads, kv_heads, size, window):
    from runtime.platforms.triton import paged

    lengths = torch.randint(1, 2500, (requests,)).tolist()
    arguments = case(lengths, [1] * requests, heads, kv_heads, size, torch.bfloat16)
    query, cache, table, seq_lens, _ = (a.cuda() for a in arguments)
    splits = splits_of(requests, kv_heads)
    out = torch.full_like(query, torch.nan)
    workspace = (
        torch.full((requests * heads * splits * size,), torch.nan, device="cuda"),
        torch.full((requests * heads * splits,), torch.nan, device="cuda"),
    )
    paged.decode(query, cache, table, seq_lens, out, workspace, splits, size**-0.5, window, None)
    check(out, arguments, size**-0.5, window, torch.bfloat16)


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "float8"])
@pytest.mark.parametrize(("window", "cap"), [(None, None), (700, 20.0)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("requests", "heads", "kv_heads", "size"),
    [
        *[(1, 32, 8, 128), (3, 32, 8, 128), (40, 28, 4, 128), (100, 32, 8, 128)],
        *[(2, 16, 2, 256), (5, 40, 5, 64), (3, 24, 1, 80), (7, 6, 2, 192)],
    ],
)
def test_split_kv_decode(kernels, requests, heads, kv_heads, size, dtype, window, cap, narrow):
    from runtime.platforms.cuda.split_kv import least_keys_of, splits_of

    lengths = torch.randint(1, 2500, (requests,)).tolist()
    arguments = case(lengths, [1] * requests, heads, kv_heads, size, dtype)
    scales = torch.tensor([0.6, 1.7]) if narrow else torch.ones(2)
    if narrow:
        exact = arguments[1].to(torch.float8_e4m3fn)
        arguments = (arguments[0], exact.double() * scales.view(2, 1, 1, 1, 1), *arguments[2:])
    query, cache, table, seq_lens, _ = (a.cuda() for a in arguments)
    cache = exact.cuda() if narrow else cache
    # What lies behind a request's last key may be anything.
    for request, length in enumerate(lengths):
        block = table[request, (length - 1) // 16]
        cache.view(exact.dtype if narrow else dtype)[:, block, (length - 1) % 16 + 1 :] = torch.nan
    splits, least = splits_of(requests, kv_heads), least_keys_of(requests, kv_heads)
    blocks = requests * kv_heads * -(-heads // kv_heads // 16)
    part = min(16, heads // kv_heads) * size + 32
    workspace = torch.full((blocks * splits * part,), torch.nan, device="cuda")
    counters = torch.zeros(blocks, dtype=torch.int32, device="cuda")
    for _ in range(2):
        out = torch.full_like(query, torch.nan)
        kernels.paged_decode(
            *(query, cache, table, seq_lens, out, workspace, counters, splits, least),
            *(size**-0.5, window or 0, cap or 0.0),
            *(scale.reshape(1).cuda() if narrow else None for scale in scales),
        )
        check(out, arguments, size**-0.5, window, dtype, cap)
        assert not counters.any()


@pytest.mark.parametrize(("prompts", "length"), [(1, 1024), (3, 1024), (1, 2048)])
def test_whole_prompts_are_attended_to_by_cudnn(prompts, length):
    from runtime.platforms.cuda.attention import CudaAttention, CudaMetadata

    lengths = [length] * prompts
    arguments = case(lengths, lengths, 32, 8, 128, torch.bfloat16)
    query, cache, table, _, _ = (a.cuda() for a in arguments)
    columns = torch.arange(length, device="cuda")
    slots = (table[:, columns // 16].long() * 16 + columns % 16).flatten()
    key, value = (part.flatten(0, 1)[slots] for part in cache.clone())
    spec = Layer(32, 8, 128, dtype="bfloat16").spec
    batch = SimpleNamespace(slot_mapping=slots)
    metadata = CudaMetadata(batch, 1, None, None, None, prompts)
    cache.zero_()
    out = CudaAttention(spec).forward(query, key, value, cache, metadata)
    check(out, arguments, 128**-0.5, None, torch.bfloat16)
    assert torch.equal(cache[0].flatten(0, 1)[slots], key)


@pytest.mark.parametrize("window", [None, 100])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_prefill_after_a_prefix(dtype, window):
    from runtime.platforms.triton import paged

    counts, lengths = [300, 129, 1, 128, 5], [300, 600, 1, 131, 900]
    arguments = case(lengths, counts, 32, 8, 128, dtype)
    query, cache, table, seq_lens, starts = (a.cuda() for a in arguments)
    rows = paged.prefill_rows(dtype, 128)
    tiles = [torch.from_numpy(t).cuda() for t in tiles_of(arguments[4].numpy(), 0, rows)]
    out = torch.full_like(query, torch.nan)
    paged.prefill(query, cache, table, seq_lens, starts, *tiles, out, 128**-0.5, window, None)
    check(out, arguments, 128**-0.5, window, dtype)


@pytest.mark.parametrize("window", [None, 100])
@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_prefill_on_hopper(kernels, dtype, size, window):
    from runtime.platforms.cuda.hopper import ROWS, HopperBackend

    layer = Layer(32, 8, size, dtype=str(dtype).removeprefix("torch."))
    reasons = HopperBackend.reasons_against(layer.spec)
    if reasons:
        pytest.skip("; ".join(reasons))
    counts, lengths = [300, 129, 1, 128, 5], [300, 600, 1, 131, 900]
    arguments = case(lengths, counts, 32, 8, size, dtype)
    query, cache, table, seq_lens, starts = (a.cuda() for a in arguments)
    # What lies behind a request's last key may be anything.
    for request, length in enumerate(lengths):
        block = table[request, (length - 1) // 16]
        cache[:, block, (length - 1) % 16 + 1 :] = torch.nan
    tiles = [torch.from_numpy(t).cuda() for t in tiles_of(arguments[4].numpy(), 0, ROWS)]
    out = torch.full_like(query, torch.nan)
    kernels.paged_prefill(
        query, cache, table, seq_lens, starts, *tiles, out, size**-0.5, window or 0, 0.0
    )
    check(out, arguments, size**-0.5, window, dtype)
