"""Which strides kernels take."""

import torch

from runtime.platforms.shared.takes import whole_heads


def test_parts_of_merged_outputs_have_whole_heads():
    merged = torch.zeros(5, 6, 8)
    assert all(whole_heads(part) for part in merged.split((4, 1, 1), dim=1))
    assert not whole_heads(merged.transpose(1, 2))
    assert not whole_heads(merged[..., ::2])
