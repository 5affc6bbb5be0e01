"""The product for few rows, beyond the op's samples."""

import pytest
import torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("inputs", [1, 15, 31, 33, 576])
def test_a_row_is_the_same_beside_any_others(isa, kernels, generator, dtype, inputs):
    x = torch.randn(17, inputs, generator=generator).to(dtype)
    weight = torch.randn(39, inputs, generator=generator).to(dtype)
    bias = torch.randn(39, generator=generator).to(dtype)
    out = torch.empty(17, 39, dtype=dtype)
    kernels.linear(x, weight, bias, out)
    for rows in (slice(0, 1), slice(3, 8), slice(14, 17)):
        own = torch.empty_like(out[rows])
        kernels.linear(x[rows], weight, bias, own)
        assert torch.equal(own, out[rows])


def test_a_vocabulary(isa, kernels, generator):
    x = torch.randn(2, 64, generator=generator)
    weight = torch.randn(49_153, 64, generator=generator)
    out = torch.empty(2, 49_153)
    kernels.linear(x, weight, None, out)
    expected = (x.double() @ weight.double().T).float()
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-4)


def test_nothing(kernels):
    out = torch.empty(0, 3)
    kernels.linear(torch.empty(0, 8), torch.ones(3, 8), None, out)
    kernels.linear(torch.empty(2, 8), torch.empty(0, 8), None, torch.empty(2, 0))
    out = torch.empty(2, 3)
    kernels.linear(torch.empty(2, 0), torch.empty(3, 0), torch.ones(3), out)
    assert torch.equal(out, torch.ones(2, 3))
