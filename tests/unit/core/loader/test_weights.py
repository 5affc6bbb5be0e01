import pytest
import torch

from runtime.core.loader import weights
from runtime.core.loader.weights import LazyWeight


class _InMemory(LazyWeight):
    name = "w"

    def __init__(self, values):
        self.values = values
        self.shape = tuple(values.shape)
        self.dtype = values.dtype
        self.reads = []

    def read(self, start, stop):
        self.reads.append((start, stop))
        return self.values[start:stop] if self.shape else self.values


def _copy(source, target):
    assert source.dtype == target.dtype, "a platform copies, it does not convert"
    target.copy_(source)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (10, 3), (5, 2, 3), (0, 4)])
def test_a_copy_is_complete(shape):
    weight = _InMemory(torch.randn(shape))
    target = torch.full(shape, 9.0, dtype=torch.bfloat16)
    weight.copy_into(target, _copy)
    assert torch.equal(target, weight.values.to(torch.bfloat16))


def test_copies_go_by_chunks_of_rows(monkeypatch):
    monkeypatch.setattr(weights, "CHUNK_BYTES", 4 * 3 * 4)
    weight = _InMemory(torch.randn(10, 3))
    target = torch.empty(10, 3)
    weight.copy_into(target, _copy)
    assert weight.reads == [(0, 4), (4, 8), (8, 10)]
    assert torch.equal(target, weight.values)


def test_a_row_larger_than_a_chunk(monkeypatch):
    monkeypatch.setattr(weights, "CHUNK_BYTES", 8)
    weight = _InMemory(torch.randn(3, 5))
    target = torch.empty(3, 5)
    weight.copy_into(target, _copy)
    assert weight.reads == [(0, 1), (1, 2), (2, 3)]
    assert torch.equal(target, weight.values)
