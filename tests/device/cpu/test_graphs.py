"""Copies between kernels are kernels too, so that a step is one recording."""

import torch

from runtime.core import ops
from runtime.core.ops.registry import resolve_ops
from runtime.platforms.cpu.platform import CpuPlatform


def test_a_copy_stays_in_the_recording(kernels):
    platform = CpuPlatform()
    platform.load_ops()
    resolve_ops(platform)
    x, out = torch.randn(3, 64), torch.zeros(5, 32)
    strided = torch.zeros(3, 64)[:, ::2]

    def work():
        gated = ops.silu_and_mul(x)
        out[:3].copy_(gated)
        strided.copy_(gated)

    graph = platform.graphs.capture(work)
    assert [type(step).__name__ for step in graph.steps] == ["_Recording", "RecordedCall"]
    x.copy_(torch.randn(3, 64))
    graph.replay()
    expected = ops.silu_and_mul(x)
    assert torch.equal(out[:3], expected)
    assert torch.equal(strided, expected)
    assert not out[3:].any()
