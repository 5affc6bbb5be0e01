"""Packed weights of every format on every instruction set, against float64 products."""

import pytest
import torch

from runtime.core.quantization.block_formats import BLOCK_FORMATS
from runtime.core.testing.blocks import random_rows

FLOATS = ("float32", "bfloat16", "float16")
FORMATS = (*BLOCK_FORMATS, *FLOATS)
# Rows of x, rows of the weight: tiles of every size and rests; groups that are part full.
SIZES = [(1, 16), (2, 33), (3, 5), (5, 100), (7, 49), (13, 16), (64, 31)]


class Packed:
    """A random weight, what it means (float64) and how the kernels have it."""

    def __init__(self, kernels, name, rows, columns, generator):
        self.kernels, self.name, self.rows = kernels, name, rows
        if name in FLOATS:
            values = (torch.randn(rows, columns, generator=generator) * columns**-0.5).to(
                getattr(torch, name)
            )
            stored, self.meant = values.view(torch.uint8), values.double()
        else:
            stored = random_rows(BLOCK_FORMATS[name], rows, columns, generator)
            self.meant = BLOCK_FORMATS[name].dequantize(stored).double()
        self.data = torch.zeros(kernels.packed_bytes(name, rows, columns), dtype=torch.uint8)
        kernels.pack_weight(stored, name, columns, self.data)

    def __call__(self, x, bias=None):
        out = torch.full((x.shape[0], self.rows), torch.nan, dtype=x.dtype)
        self.kernels.packed_linear(x, self.data, self.name, self.rows, bias, out)
        return out


def columns_of(name):
    """Widths with a rest where the format allows it; bfloat16 is multiplied in pairs."""
    if name.endswith("_K"):
        return (512,)
    if name in BLOCK_FORMATS:
        return (96, 577 if name == "int8" else 288)
    return (80, 578 if name == "bfloat16" else 577)


def eight_bits(name, x):
    """What the kernels make of x beside blocks, in float64."""
    block = x.shape[-1] if name == "int8" else 32
    parts = x.double().unflatten(-1, (-1, block))
    scale = (parts.abs().amax(-1, keepdim=True).float() / 127).double()
    # The kernels multiply by the scale's inverse in float32, which decides ties.
    inverse = torch.where(scale > 0, 1 / scale.float(), 0.0)
    whole = torch.round(parts.float() * inverse).clamp(-127, 127).double()
    return (whole * scale).flatten(-2)


def relative(got, expected):
    return ((got.double() - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize("name", FORMATS)
def test_products(isa, kernels, generator, name):
    for columns in columns_of(name):
        for tokens, rows in SIZES:
            weight = Packed(kernels, name, rows, columns, generator)
            x = torch.randn(tokens, columns, generator=generator)
            bias = torch.randn(rows, generator=generator)
            floats = name in FLOATS or (name == "q8_0" and isa == "avx2")
            seen = x.double() if floats else eight_bits(name, x)
            # bfloat16's own instructions round x to it.
            if name == "bfloat16":
                seen = x.bfloat16().double() if "bf16" in isa else seen
            off = relative(weight(x, bias), seen @ weight.meant.T + bias)
            assert off < 2e-6, f"{tokens} x {rows} x {columns}: {off:.2g}"
            exact = relative(weight(x, bias), x.double() @ weight.meant.T + bias)
            assert exact < 2e-2, f"{tokens} x {rows} x {columns}: {exact:.2g} from the exact one"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", FORMATS)
def test_narrow_activations(isa, kernels, generator, name, dtype):
    weight = Packed(kernels, name, 37, columns_of(name)[0], generator)
    x = torch.randn(9, columns_of(name)[0], generator=generator).to(dtype)
    off = relative(weight(x), x.double() @ weight.meant.T)
    assert off < 2e-2


@pytest.mark.parametrize("name", FORMATS)
def test_a_row_is_the_same_in_any_company(isa, kernels, generator, name):
    weight = Packed(kernels, name, 40, columns_of(name)[0], generator)
    x = torch.randn(23, columns_of(name)[0], generator=generator)
    together = weight(x)
    for count in (1, 2, 4, 6, 11):
        assert torch.equal(weight(x[:count].contiguous()), together[:count])


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_no_number_stays_so_in_its_row(isa, kernels, generator, name):
    weight = Packed(kernels, name, 20, columns_of(name)[0], generator)
    x = torch.randn(3, columns_of(name)[0], generator=generator)
    alone = weight(x)
    x[1, 7] = torch.nan
    x[2, 40] = torch.inf
    got = weight(x)
    assert torch.equal(got[0], alone[0])
    assert got[1].isnan().any()
    assert not got[2].isfinite().any()


@pytest.mark.parametrize("name", FORMATS)
def test_columns_of_a_wider_result(isa, kernels, generator, name):
    columns = columns_of(name)[0]
    weight = Packed(kernels, name, 21, columns, generator)
    x = torch.randn(5, columns, generator=generator)
    wide = torch.full((5, 40), 7.0)
    kernels.packed_linear(x, weight.data, name, 21, None, wide[:, 10:31])
    assert torch.equal(wide[:, 10:31], weight(x))
    assert (wide[:, :10] == 7).all()
    assert (wide[:, 31:] == 7).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", FORMATS)
def test_embedding(isa, kernels, generator, name, dtype):
    weight = Packed(kernels, name, 37, columns_of(name)[0], generator)
    ids = torch.tensor([36, 0, 17, 17], dtype=torch.int32)
    out = torch.empty(4, columns_of(name)[0], dtype=dtype)
    kernels.packed_embedding(ids, weight.data, name, 37, out)
    torch.testing.assert_close(out, weight.meant[ids].float().to(dtype))


def test_bad_arguments_are_refused(kernels, generator):
    weight = Packed(kernels, "q8_0", 20, 96, generator)
    x, out = torch.zeros(2, 96), torch.zeros(2, 20)
    linear, data = kernels.packed_linear, weight.data
    for arguments, words in (
        ((x, data, "q9_9", 20, None, out), "format 'q9_9' is not one of q4_0"),
        ((x[:, :64].contiguous(), data, "q8_0", 20, None, out), "weight"),
        ((torch.zeros(2, 90), data, "q8_0", 20, None, out), "multiple of 32"),
        ((x, data[1:], "q8_0", 20, None, out), "weight"),
        ((x, data, "q8_0", 20, torch.zeros(19), out), "bias"),
        ((x, data, "q8_0", 20, None, out[:1]), "out"),
        ((x, data, "q8_0", 20, None, out.bfloat16()), "out"),
        ((x, data, "q8_0", 20, None, out[:1].expand(2, 20)), "overlap"),
    ):
        with pytest.raises(RuntimeError, match=words):
            linear(*arguments)
    ids = torch.tensor([20], dtype=torch.int32)
    with pytest.raises(RuntimeError, match=r"ids\[0\] = 20 is not in the table"):
        kernels.packed_embedding(ids, data, "q8_0", 20, torch.zeros(1, 96))
    with pytest.raises(RuntimeError, match="stored"):
        kernels.pack_weight(torch.zeros(20, 33, dtype=torch.uint8), "q8_0", 96, data)
