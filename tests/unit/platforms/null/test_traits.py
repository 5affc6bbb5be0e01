"""What is read from an op's schema."""

from __future__ import annotations

import pytest
import torch

from runtime.platforms.null.traits import traits_of

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("op", "written", "returned"),
    [
        (aten.add.Tensor, (), ()),
        (aten.view.default, (), ()),
        (aten.add_.Tensor, (0,), (0,)),
        (aten.add.out, ("out",), ("out",)),
        (aten.topk.values, ("values", "indices"), ("values", "indices")),
        (aten._foreach_add_.Scalar, (0,), ()),
    ],
    ids=str,
)
def test_written_arguments_and_which_of_them_are_returned(op, written, returned):
    traits = traits_of(op)
    assert traits.written == written
    assert traits.returned == returned


@pytest.mark.parametrize(
    "op",
    [aten.item.default, aten.to.device, aten.where.default, aten.repeat_interleave.self_Tensor],
    ids=str,
)
def test_composites_that_may_hide_a_wait_or_a_copy_are_run_in_parts(op):
    assert traits_of(op).decompose


@pytest.mark.parametrize(
    "op",
    [aten.linear.default, aten.scaled_dot_product_attention.default, aten.where.self],
    ids=str,
)
def test_common_composites_and_single_ops_are_run_whole(op):
    assert not traits_of(op).decompose


def test_index_ops_wait_by_their_arguments_only():
    assert torch.Tag.dynamic_output_shape in aten.index.Tensor.tags
    traits = traits_of(aten.index.Tensor)
    assert traits.index
    assert not traits.waits
    assert traits_of(aten.nonzero.default).waits
