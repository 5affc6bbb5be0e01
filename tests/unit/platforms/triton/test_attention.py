"""How attention is divided among programs, and what is refused."""

import numpy as np
import pytest
import torch

from runtime.core.testing.batches import Layer
from runtime.platforms.triton import attention
from runtime.platforms.triton.attention import TritonBackend, splits_of, tiles_of


@pytest.mark.parametrize(
    ("requests", "kv_heads", "splits"),
    [(1, 8, 32), (2, 8, 16), (4, 8, 8), (32, 8, 1), (512, 8, 1), (1, 1, 32), (3, 8, 8), (0, 8, 32)],
)
def test_splits(requests, kv_heads, splits):
    assert splits_of(requests, kv_heads) == splits


def test_every_token_of_a_prefill_is_in_one_tile():
    starts = np.array([0, 1, 2, 7, 20, 36], dtype=np.int32)
    requests, firsts = tiles_of(starts, 2, 8)
    seen = sorted(
        (int(r), int(f) + i)
        for r, f in zip(requests, firsts, strict=True)
        for i in range(8)
        if f + i < starts[r + 1] - starts[r]
    )
    assert seen == [(r, t) for r in (2, 3, 4) for t in range(starts[r + 1] - starts[r])]
    assert (np.diff(firsts) <= 0).all(), "tiles with the most keys come first"


def test_reasons(monkeypatch):
    monkeypatch.setattr(attention, "why_missing", lambda: None)
    assert TritonBackend.reasons_against(Layer().spec) == []
    assert "head size 512" in TritonBackend.reasons_against(Layer(head_size=512).spec)[0]
    reasons = TritonBackend.reasons_against(Layer(num_heads=128, num_kv_heads=1).spec)
    assert "64 query heads" in reasons[0]
    monkeypatch.setattr(attention, "why_missing", lambda: "Triton is not installed")
    spec = Layer(dtype="float64").spec
    assert TritonBackend.reasons_against(spec) == [
        "Triton is not installed",
        f"dtype {torch.float64} is not float32, bfloat16 or float16",
    ]
