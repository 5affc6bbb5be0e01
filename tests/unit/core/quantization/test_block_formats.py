"""Block formats against the gguf library, and values that become blocks."""

import numpy as np
import pytest
import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from runtime.core.errors import ModelLoadError
from runtime.core.quantization.block_formats import BLOCK_FORMATS, LOADABLE, BlockRows
from runtime.core.testing.blocks import random_rows


@pytest.fixture
def generator():
    generator = torch.Generator()
    generator.seed()
    return generator


GGUF_FORMATS = [name for name in BLOCK_FORMATS if name != "int8"]


@pytest.mark.parametrize("name", GGUF_FORMATS)
def test_sizes_and_values_are_those_of_gguf(name, generator):
    kind, theirs = BLOCK_FORMATS[name], GGMLQuantizationType[name.upper()]
    assert (kind.block, kind.block_bytes) == GGML_QUANT_SIZES[theirs]
    rows = random_rows(kind, 5, 3 * kind.block, generator)
    got = kind.dequantize(rows)
    assert got.shape == (5, 3 * kind.block)
    assert kind.row_bytes(3 * kind.block) == rows.shape[1]
    np.testing.assert_array_equal(got.numpy(), dequantize(rows.numpy(), theirs))


# Half a step of the widest block's range, over the values' own; int8 has a row's range.
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("int8", 0.01),
        ("q8_0", 0.01),
        ("q5_1", 0.06),
        ("q5_0", 0.08),
        ("q4_1", 0.12),
        ("q4_0", 0.15),
    ],
)
def test_values_survive_quantisation(name, most):
    assert name in LOADABLE
    kind = BLOCK_FORMATS[name]
    values = torch.randn(7, 96)
    back = kind.dequantize(kind.quantize(values))
    assert back.shape == values.shape
    assert ((back - values).norm() / values.norm()).item() < most


def test_a_row_of_zeros_is_zeros():
    zeros = torch.zeros(2, 32)
    for name in LOADABLE:
        kind = BLOCK_FORMATS[name]
        assert torch.equal(kind.dequantize(kind.quantize(zeros)), zeros)


def test_rows_of_part_blocks_do_not_fit():
    assert BLOCK_FORMATS["q4_K"].fits(512)
    assert not BLOCK_FORMATS["q4_K"].fits(576)
    assert BLOCK_FORMATS["int8"].fits(7)


def test_what_cannot_be_made_is_refused_by_name():
    with pytest.raises(ModelLoadError, match="q4_K here, only read .* choose one of int8"):
        BLOCK_FORMATS["q4_K"].quantize(torch.zeros(1, 256))


def test_block_rows_have_the_shape_of_their_values():
    rows = BlockRows(torch.zeros(3, 40, dtype=torch.uint8), BLOCK_FORMATS["q4_1"], 64)
    assert (rows.shape, rows.nbytes, rows.detach()) == ((3, 64), 120, rows)
