"""Kernels of the CUDA platform by themselves: microseconds a call, one JSON line each.

    python benchmarks/cuda_kernels.py [--only linear] [--providers kernels,triton,torch]

A call's time is a graph's of many calls over that number, the median of several replays; the
calls go through sets of arguments that together exceed the L2 cache where they are large. Widths
are those of Llama-3.1-8B. ``torch`` is the op's reference, which for a product is cuBLAS.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from runtime.core.ops.registry import get_op
from runtime.platforms.cuda.platform import CudaPlatform

HIDDEN, INNER, HEADS, KV_HEADS, SIZE, VOCAB = 4096, 14336, 32, 8, 128, 128256
L2 = 50 << 20
DTYPE = torch.bfloat16
CALLS, REPLAYS = 64, 15


@dataclass(frozen=True)
class Case:
    """An op, and how to make its arguments."""

    op: str
    shape: str
    make: Callable[[], tuple[Any, ...]]
    bytes: int
    """Read and written by a call."""


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.float32).to(DTYPE)


def rotary(tokens: int) -> tuple[Any, ...]:
    merged = random(tokens, HEADS + 2 * KV_HEADS, SIZE)
    query, key, value = merged.split((HEADS, KV_HEADS, KV_HEADS), dim=1)
    cache = random(2, tokens // 16 + 2, 16, KV_HEADS, SIZE)
    positions = torch.arange(tokens, device="cuda")
    return query, key, value, positions, random(8192, SIZE), cache, positions + 16


def drawing(rows: int, top_k: int, top_p: float) -> tuple[Any, ...]:
    """Logits spread as models' are, and one setting for all rows."""

    def column(value: float) -> torch.Tensor:
        return torch.full((rows,), value, device="cuda")

    uniform = torch.rand(rows, device="cuda")
    limit = column(top_k).int()
    return random(rows, VOCAB) * 3, column(0.8), limit, column(top_p), column(0.0), uniform


def penalising(rows: int, tokens: int) -> tuple[Any, ...]:
    """Rows of so many tokens, the last half of them output."""
    starts = torch.arange(rows + 1, device="cuda", dtype=torch.int32) * tokens
    ids = torch.randint(VOCAB, (rows * tokens,), device="cuda", dtype=torch.int32)
    factors = (torch.full((rows,), x, device="cuda") for x in (1.1, 0.1, 0.1))
    logits = torch.randn((rows, VOCAB), device="cuda")
    return logits, ids, starts, starts[:-1] + tokens // 2, *factors


def cases() -> Iterator[Case]:
    for tokens in (1, 64, 4096):
        row, gate = 2 * tokens * HIDDEN, 2 * tokens * INNER
        yield Case(
            "rms_norm",
            f"{tokens}x{HIDDEN}",
            lambda tokens=tokens: (random(tokens, HIDDEN), random(HIDDEN), 1e-5),
            2 * row,
        )
        yield Case(
            "fused_add_rms_norm",
            f"{tokens}x{HIDDEN}",
            lambda t=tokens: (random(t, HIDDEN), random(t, HIDDEN), random(HIDDEN), 1e-5),
            4 * row,
        )
        yield Case(
            "silu_and_mul",
            f"{tokens}x{INNER}",
            lambda tokens=tokens: (random(tokens, 2 * INNER),),
            3 * gate,
        )
        yield Case(
            "rotary_write_kv_cache",
            f"{tokens}x{HEADS}+{KV_HEADS}",
            lambda tokens=tokens: rotary(tokens),
            4 * tokens * (HEADS + 2 * KV_HEADS) * SIZE,
        )
    for rows in (1, 64):
        logits = 2 * rows * VOCAB
        yield Case(
            "greedy_sample",
            f"{rows}x{VOCAB}",
            lambda rows=rows: (random(rows, VOCAB),),
            logits,
        )
        yield Case(
            "sample_tokens",
            f"{rows}x{VOCAB} top-k 50 top-p 0.9",
            lambda rows=rows: drawing(rows, 50, 0.9),
            logits,
        )
        yield Case(
            "sample_tokens",
            f"{rows}x{VOCAB} top-p 0.9",
            lambda rows=rows: drawing(rows, 0, 0.9),
            logits,
        )
        yield Case(
            "apply_penalties",
            f"{rows}x{VOCAB} of 1000",
            lambda rows=rows: penalising(rows, 1000),
            rows * 4000,
        )
    for rows in (1, 2, 4, 8):
        for n, k in ((6144, HIDDEN), (HIDDEN, HIDDEN), (2 * INNER, HIDDEN), (HIDDEN, INNER)):
            yield Case(
                "linear",
                f"{rows}x{k}x{n}",
                lambda rows=rows, n=n, k=k: (random(rows, k), random(n, k), None),
                2 * n * k,
            )
    yield Case(
        "linear",
        f"1x{HIDDEN}x{VOCAB}",
        lambda: (random(1, HIDDEN), random(VOCAB, HIDDEN), None),
        2 * VOCAB * HIDDEN,
    )


def microseconds(function: Callable[..., Any], sets: list[tuple[Any, ...]]) -> float:
    """Of one call."""
    for arguments in sets[:2]:
        function(*arguments)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in range(CALLS):
            function(*sets[call % len(sets)])
    times = []
    for _ in range(REPLAYS + 2):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / CALLS)
    return statistics.median(times[2:])


def function_of(op: str, provider: str, sample: tuple[Any, ...]) -> Callable[..., Any] | None:
    """What a provider computes an op with; None where it does not take the arguments."""
    definition = get_op(op)
    if provider == "torch":
        return definition.definition.reference
    entry = definition.providers[provider, "cuda"]
    if entry.available() is not None or (entry.supports and not entry.supports(*sample)):
        return None
    return entry.function


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="ops whose names hold this")
    parser.add_argument("--providers", default="kernels,triton,torch")
    options = parser.parse_args()
    CudaPlatform().load_ops()
    about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    print(json.dumps(about), file=sys.stderr)
    for case in cases():
        if options.only not in case.op:
            continue
        first = case.make()
        size = sum(x.nbytes for x in first if isinstance(x, torch.Tensor))
        sets = [first] + [case.make() for _ in range(min(CALLS, 4 * L2 // size) - 1)]
        for provider in options.providers.split(","):
            function = function_of(case.op, provider, first)
            if function is None:
                continue
            taken = microseconds(function, sets)
            line = {"op": case.op, "shape": case.shape, "provider": provider}
            line |= {"us": round(taken, 2), "GB/s": round(case.bytes / taken / 1e3)}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
