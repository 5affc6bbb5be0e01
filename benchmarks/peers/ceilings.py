"""What the machine itself can do: one JSON object on standard output. Needs torch.

Usage: ``python -m benchmarks.peers.ceilings THREADS``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import torch

_GIB_READ = 1
_SIDES = (512, 2048)
"""Of the square matrices that are multiplied."""
_PATIENCE = 0.1
"""Seconds for a small product above which a large one is not tried."""
_TIMES = 5


def best_seconds(run: Callable[[], object]) -> float:
    """The shortest of some runs, after one that does not count."""
    run()
    found = []
    for _ in range(_TIMES):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


def measure(threads: int) -> dict[str, float]:
    """Read bandwidth in bytes a second, matrix multiplication in operations a second."""
    torch.set_num_threads(threads)
    # Integers, since a sum of them is one addition for eight bytes.
    data = torch.ones((_GIB_READ << 30) // 8, dtype=torch.int64)
    found = {"read_bytes_s": data.nbytes / best_seconds(data.sum)}
    del data
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        found[f"gemm_{name}_flop_s"] = gemm(dtype)
    return found


def gemm(dtype: torch.dtype) -> float:
    """Operations a second of a product of large matrices; of small ones where that is slow."""
    rate = 0.0
    for side in _SIDES:
        left, right = (torch.randn(side, side).to(dtype) for _ in range(2))
        seconds = best_seconds(lambda left=left, right=right: left @ right)
        rate = max(rate, 2 * side**3 / seconds)
        if seconds > _PATIENCE:
            break
    return rate


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
