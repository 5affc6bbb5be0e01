"""The compiled operators against the ops' references in float64, on fresh random inputs."""

import pytest
import torch

from runtime.core.ops.registry import all_ops
from runtime.core.ops.samples import ELEMENTWISE, normal
from runtime.core.testing.comparison import deviation
from runtime.platforms.cuda.ops import PROVIDERS

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
OPS = {op.name: op for op in all_ops() if op.name in PROVIDERS}


def widened(value):
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if floating else value


def on_device(value):
    """On the GPU with the same strides, so that parts of merged outputs stay parts."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_contiguous():
        return value.cuda()
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).cuda().copy_(value)


def outputs(op, arguments, returned):
    if op.name == "write_kv_cache":
        return (arguments[2],)
    if op.name == "apply_penalties":
        return (arguments[0],)
    if op.name == "rotary_write_kv_cache":
        return (returned, arguments[5])
    return returned if isinstance(returned, tuple) else (returned,)


def check(op, sample):
    """Compare a provider with the reference; False where it does not take the arguments."""
    function, takes = PROVIDERS[op.name]
    there = [on_device(value) for value in sample]
    if not takes(*there):
        return False
    exact = [widened(value) for value in sample]
    wanted = outputs(op, exact, op.definition.reference(*exact))
    got = outputs(op, there, function(*there))
    dtype = next(v.dtype for v in sample if isinstance(v, torch.Tensor) and v.is_floating_point())
    for value, expected in zip(got, wanted, strict=True):
        found = deviation(value.cpu(), expected, op.definition.tolerance[dtype])
        assert found.acceptable, (op.name, found)
    return True


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", sorted(OPS))
def test_agrees_with_the_reference(kernels, name, dtype, generator):
    taken = [check(OPS[name], sample) for sample in OPS[name].definition.samples(dtype, generator)]
    assert any(taken) or (name == "linear" and dtype == torch.float32)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("rows", "width"), [(1, 4096), (300, 4096), (3, 8192), (400, 5120), (2, 40000), (3, 4099)]
)
def test_norms_of_real_widths(kernels, rows, width, dtype, generator):
    x, residual = (normal((rows, width), dtype, generator, 2.0) for _ in range(2))
    weight = normal((width,), dtype, generator)
    assert check(OPS["rms_norm"], (x, weight, 1e-5))
    assert check(OPS["fused_add_rms_norm"], (x, residual, weight, 1e-6))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [1, 70])
def test_gates_of_real_widths(kernels, rows, dtype, generator):
    x = normal((rows, 2 * 14336), dtype, generator, 3.0)
    assert check(OPS["silu_and_mul"], (x,))
    assert check(OPS["gelu_tanh_and_mul"], (x,))


@pytest.mark.parametrize("name", ["silu_and_mul", "gelu_tanh_and_mul"])
def test_gates_at_their_limits(kernels, name):
    edges = [0.0, 1e-30, -1e-30, 20.0, -20.0, 87.0, -88.5, 100.0, -100.0, 1e9, -1e9, torch.nan]
    x = torch.tensor([edges + [1.0] * len(edges)])
    expected = OPS[name].definition.reference(x.double())
    got = PROVIDERS[name][0](x.cuda()).cpu().double()
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-30, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("rows", [*range(1, 9), 11, 16])
@pytest.mark.parametrize(
    ("n", "k"), [(4096, 4096), (6144, 4096), (33, 8), (1, 576), (1000, 14336), (17, 2056)]
)
def test_products_of_few_rows(kernels, rows, n, k, dtype, generator):
    x, weight = normal((rows, k), dtype, generator), normal((n, k), dtype, generator, k**-0.5)
    bias = normal((n,), dtype, generator) if n % 2 else None
    there = [None if value is None else value.cuda() for value in (x, weight, bias)]
    out = torch.full((rows, n), torch.nan, dtype=dtype, device="cuda")
    kernels.linear(*there, out)
    expected = torch.nn.functional.linear(*(widened(value) for value in (x, weight, bias)))
    # Float32 sums of exact products, rounded once.
    found = deviation(out.cpu(), expected, ELEMENTWISE[dtype])
    assert found.acceptable, found


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("tokens", "heads", "kv_heads", "size"), [(1, 32, 8, 128), (65, 28, 4, 256)]
)
def test_rotary_of_real_heads(kernels, tokens, heads, kv_heads, size, dtype, generator):
    angles = torch.rand((500, size // 2), generator=generator) * 6.2
    table = torch.cat((angles.cos(), angles.sin()), dim=-1).to(dtype)
    merged = normal((tokens, heads + 2 * kv_heads, size), dtype, generator)
    query, key, value = merged.split((heads, kv_heads, kv_heads), dim=1)
    positions = torch.randint(0, 500, (tokens,), generator=generator)
    cache = normal((2, 9, 16, kv_heads, size), dtype, generator)
    slots = 16 + torch.randperm(128, generator=generator)[:tokens]
    assert check(OPS["rotary_write_kv_cache"], (query, key, value, positions, table, cache, slots))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [128, 24])
def test_a_float8_cache(kernels, size, dtype, generator):
    tokens, kv_heads = 19, 3
    merged = normal((tokens, 2 * kv_heads, size), dtype, generator, 40.0).cuda()
    key, value = merged.split(kv_heads, dim=1)
    slots = (16 + torch.randperm(48, generator=generator)[:tokens]).cuda()
    scales = torch.tensor([0.05, 0.31], device="cuda")
    shape = (2, 4, 16, kv_heads, size)
    cache = torch.zeros(shape, device="cuda").to(torch.float8_e4m3fn)
    kernels.write_kv_cache(key, value, cache, slots, scales[:1], scales[1:])
    expected = torch.zeros(shape, device="cuda").flatten(1, 2)
    for half, part, scale in zip(expected, (key, value), scales, strict=True):
        half[slots] = (part.float() / scale).clamp(-448, 448)
    expected = expected.reshape(shape).to(torch.float8_e4m3fn)
    assert torch.equal(cache.view(torch.uint8), expected.view(torch.uint8))
    assert (expected.float().abs() == 448).any(), "some values are beyond float8"


def test_draws_follow_the_probabilities(kernels, generator):
    """With nothing left out, tokens come as often as their probabilities say."""
    vocab, rows = 50, 200_000
    logits = normal((vocab,), torch.float32, generator, 1.0)
    ones, zeros = torch.ones(rows, device="cuda"), torch.zeros(rows, device="cuda")
    uniform = torch.rand(rows, generator=generator).cuda()
    out = torch.full((rows,), -1, device="cuda")
    there = logits.cuda().expand(rows, vocab).contiguous()
    kernels.sample_tokens(there, ones, zeros.int(), ones, zeros, uniform, out)
    found = out.cpu().bincount(minlength=vocab).double() / rows
    wanted = logits.double().softmax(0)
    # Six standard deviations of each count.
    assert ((found - wanted).abs() < 6 * (wanted * (1 - wanted) / rows).sqrt()).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_draw_is_of_its_row_alone(kernels, dtype, generator):
    """Neither the neighbours nor chance change a row's token; equal logits are many here."""
    rows, vocab = 64, 128256
    logits = normal((rows, vocab), dtype, generator, 0.02).cuda()
    columns = [
        torch.full((rows,), 0.9),
        torch.full((rows,), 40000, dtype=torch.int32),
        torch.full((rows,), 0.5),
        torch.zeros(rows),
        torch.rand(rows, generator=generator),
    ]
    columns = [column.cuda() for column in columns]
    out = torch.full((rows,), -1, device="cuda")
    kernels.sample_tokens(logits, *columns, out)
    for _ in range(3):
        order = torch.randperm(rows, generator=generator).cuda()
        again = torch.full_like(out, -1)
        kernels.sample_tokens(logits[order], *(column[order] for column in columns), again)
        assert torch.equal(again, out[order])


def test_rows_without_a_token(kernels):
    """No number, and no probability anywhere, give some token of the vocabulary."""
    logits = torch.tensor([[torch.nan] * 7, [-torch.inf] * 7, [torch.inf, *([0.0] * 6)]]).cuda()
    ones, zeros = torch.ones(3, device="cuda"), torch.zeros(3, device="cuda")
    for top_k, top_p in ((0, 1.0), (3, 1.0), (0, 0.5), (2, 0.5)):
        out = torch.full((3,), -1, device="cuda")
        kernels.sample_tokens(logits, ones, zeros.int() + top_k, ones * top_p, zeros, zeros, out)
        assert ((out >= 0) & (out < 7)).all()


@pytest.mark.parametrize(("size", "dtype"), [(128, torch.bfloat16), (3, torch.float16)])
def test_blocks_are_copied(kernels, size, dtype, generator):
    cache = normal((2, 9, 16, 3, size), dtype, generator).cuda()
    pairs = torch.tensor([[1, 7], [3, 2], [1, 8]], device="cuda")
    expected = cache.clone()
    expected[:, [7, 2, 8]] = cache[:, [1, 3, 1]]
    kernels.copy_blocks(cache, pairs)
    assert torch.equal(cache, expected)


def test_blocks_go_to_the_host_and_back(kernels, generator):
    cache = normal((2, 9, 16, 3, 64), torch.bfloat16, generator).cuda()
    host = torch.zeros((2, 5, 16, 3, 64), dtype=torch.bfloat16).pin_memory()
    kernels.swap_blocks(cache, host, torch.tensor([[3, 1], [4, 2], [8, 4]]))
    torch.cuda.synchronize()
    assert torch.equal(host[:, [1, 2, 4]], cache[:, [3, 4, 8]].cpu())
    assert not host[:, [0, 3]].any()
    before = cache.clone()
    kernels.swap_blocks(host, cache, torch.tensor([[4, 6], [1, 7]]))
    before[:, [6, 7]] = before[:, [8, 3]]
    assert torch.equal(cache, before)


def layers(apply, count=12):
    """A model's chain of small kernels, each reading what the one before it wrote."""
    hidden, inner, heads, kv_heads, size = 1024, 2048, 8, 2, 128
    generator = torch.Generator("cuda").manual_seed(1)

    def matrix(n, k):
        values = torch.randn((n, k), generator=generator, device="cuda") * k**-0.5
        return values.to(torch.bfloat16)

    parts = (heads, kv_heads, kv_heads)
    weights = [
        (matrix(sum(parts) * size, hidden), matrix(hidden, heads * size))
        + (matrix(2 * inner, hidden), matrix(hidden, inner), matrix(1, hidden)[0] + 1)
        for _ in range(count)
    ]
    angles = torch.rand((64, size // 2), generator=generator, device="cuda") * 6.2
    table = torch.cat((angles.cos(), angles.sin()), dim=-1).to(torch.bfloat16)
    positions = torch.tensor([5, 9], device="cuda")
    cache = torch.zeros((2, 4, 16, kv_heads, size), dtype=torch.bfloat16, device="cuda")
    slots = torch.tensor([17, 40], device="cuda")
    start = torch.randn((2, hidden), generator=generator, device="cuda").to(torch.bfloat16)
    torch.cuda.synchronize()

    def step():
        x, total = start, torch.zeros_like(start)
        for qkv, output, gate_up, down, norm in weights:
            x, total = apply("fused_add_rms_norm", x, total, norm, 1e-5)
            merged = apply("linear", x, qkv, None).unflatten(-1, (-1, size))
            query, key, value = merged.split(parts, dim=1)
            query = apply(
                *("rotary_write_kv_cache", query, key, value),
                *(positions, table, cache, slots),
            )
            read = cache.flatten(1, 2)[:, slots].sum(0).repeat(1, heads // kv_heads, 1)
            x = apply("linear", (query + read).flatten(1), output, None)
            x, total = apply("fused_add_rms_norm", x, total, norm, 1e-5)
            x = apply(
                "linear", apply("silu_and_mul", apply("linear", x, gate_up, None)), down, None
            )
        return x + total

    return step


def test_kernels_that_overlap_compute_what_they_do_one_by_one(kernels):
    """Each may begin before the one in front has ended: none may read too early."""

    def alone(name, *arguments):
        torch.cuda.synchronize()
        result = PROVIDERS[name][0](*arguments)
        torch.cuda.synchronize()
        return result

    expected = layers(alone)()
    step = layers(lambda name, *arguments: PROVIDERS[name][0](*arguments))
    for _ in range(20):
        assert torch.equal(step(), expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    for _ in range(50):
        out.fill_(torch.nan)
        graph.replay()
        assert torch.equal(out, expected)
