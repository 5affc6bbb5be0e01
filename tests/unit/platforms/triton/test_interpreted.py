"""The attention kernels by Triton's interpreter, which needs no GPU, in a process of its own."""

import subprocess
import sys

import pytest

pytest.importorskip("triton")

SCRIPT = """
import sys
import torch
from runtime.core.ops.paged_attention import paged_attention
from runtime.platforms.triton import paged
from runtime.platforms.triton.attention import tiles_of

def largest_error(dtype, decodes):
    generator = torch.Generator().manual_seed(1)
    lengths = torch.tensor([30, 35], dtype=torch.int32)
    starts = torch.tensor([0, 1, 2] if decodes else [0, 5, 40], dtype=torch.int32)
    query = torch.randn((int(starts[-1]), 4, 64), generator=generator)
    cache = torch.randn((2, 9, 16, 2, 64), generator=generator).to(dtype)
    table = torch.tensor([[1, 2, 3], [4, 5, 6]], dtype=torch.int32)
    out = torch.full_like(query, torch.nan)
    if decodes:
        workspace = torch.zeros(2 * 4 * 2 * 64), torch.zeros(2 * 4 * 2)
        paged.decode(query, cache, table, lengths, out, workspace, 2, 0.125, 20, 5.0)
    else:
        rows = paged.prefill_rows(query.dtype, 64)
        tiles = [torch.from_numpy(x) for x in tiles_of(starts.numpy(), 0, rows)]
        paged.prefill(query, cache, table, lengths, starts, *tiles, out, 0.125, 20, 5.0)
    given = query.double(), cache.double(), table, lengths, starts
    wanted = paged_attention.definition.reference(*given, 0.125, 20, 5.0)
    return float((out - wanted).abs().max())

print(largest_error(getattr(torch, sys.argv[1]), sys.argv[2] == "decodes"))
"""


@pytest.mark.parametrize(
    ("dtype", "what"),
    [("float32", "decodes"), ("float32", "prompts"), ("float8_e4m3fn", "prompts")],
)
def test_attention(monkeypatch, dtype, what):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    command = [sys.executable, "-c", SCRIPT, dtype, what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1e-5
