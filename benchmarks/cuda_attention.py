"""Attention kernels of the CUDA platform by themselves: microseconds a call, one JSON line each.

    python benchmarks/cuda_attention.py [--only decode]

Times are of graphs' replays as in cuda_kernels.py: the median of several, over the calls of each.
Heads are those of Llama-3.1-8B; caches are of random blocks, and exceed the L2 cache together.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from cuda_kernels import DTYPE, HEADS, KV_HEADS, L2, SIZE, microseconds

from runtime.platforms.cuda.kernels import operators, why_missing
from runtime.platforms.cuda.split_kv import least_keys_of, splits_of
from runtime.platforms.triton import paged
from runtime.platforms.triton.attention import splits_of as triton_splits_of
from runtime.platforms.triton.attention import tiles_of

BLOCK = 16
SCALE = SIZE**-0.5
DECODES = ((1, 256), (1, 1024), (1, 65536), (8, 1024), (64, 300), (64, 4096), (512, 640))
PROMPTS = ((1, 128), (1, 2048), (1, 8192), (2, 8192), (32, 512))


def problem(requests: int, length: int, tokens: int) -> tuple[torch.Tensor, ...]:
    """Queries of the last ``tokens`` of each request, a cache, a block table, lengths, starts."""
    pages = -(-length // BLOCK)
    query = torch.randn((requests * tokens, HEADS, SIZE), device="cuda").to(DTYPE)
    shape = (2, requests * pages + 1, BLOCK, KV_HEADS, SIZE)
    cache = torch.randn(shape, device="cuda", dtype=DTYPE)
    table = torch.randperm(requests * pages, device="cuda").int().view(requests, pages) + 1
    lengths = torch.full((requests,), length, device="cuda", dtype=torch.int32)
    starts = torch.arange(requests + 1, device="cuda", dtype=torch.int32) * tokens
    return query, cache, table, lengths, starts


def decodes(requests: int, length: int, narrow: bool) -> Iterator[tuple[str, Callable[..., Any]]]:
    """By name: kernels that take what :func:`problem` gives and an output."""
    splits = triton_splits_of(requests, KV_HEADS)
    parts = torch.zeros(requests * HEADS * splits * SIZE, device="cuda")
    sums = torch.zeros(requests * HEADS * splits, device="cuda")

    def triton(query, cache, table, lengths, starts, out):  # type: ignore[no-untyped-def]
        paged.decode(query, cache, table, lengths, out, (parts, sums), splits, SCALE, None, None)

    if not narrow:
        yield "triton", triton
    if why_missing() is not None:
        return
    own = splits_of(requests, KV_HEADS)
    left = torch.zeros(requests * own * (HEADS * SIZE + KV_HEADS * 32), device="cuda")
    counters = torch.zeros(requests * KV_HEADS, dtype=torch.int32, device="cuda")
    limits = own, least_keys_of(requests, KV_HEADS), SCALE, 0, 0.0

    def compiled(query, cache, table, lengths, starts, out):  # type: ignore[no-untyped-def]
        operators().paged_decode(query, cache, table, lengths, out, left, counters, *limits)

    yield "split_kv", compiled


def prompts(requests: int, length: int) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The same for whole prompts."""
    starts_host = (torch.arange(requests + 1, dtype=torch.int32) * length).numpy()
    rows = paged.prefill_rows(DTYPE, SIZE)
    tiles = [torch.from_numpy(x).cuda() for x in tiles_of(starts_host, 0, rows)]

    def triton(query, cache, table, lengths, starts, out):  # type: ignore[no-untyped-def]
        paged.prefill(query, cache, table, lengths, starts, *tiles, out, SCALE, None, None)

    yield "triton", triton
    if why_missing() is not None or torch.cuda.get_device_capability()[0] != 9:
        return

    def hopper(query, cache, table, lengths, starts, out):  # type: ignore[no-untyped-def]
        operators().paged_prefill(query, cache, table, lengths, starts, *tiles, out, SCALE, 0, 0.0)

    yield "hopper", hopper


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", choices=("", "decode", "prompt"))
    options = parser.parse_args()
    about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    print(json.dumps(about), file=sys.stderr)
    for requests, length in DECODES if options.only != "prompt" else ():
        size = 4 * requests * length * KV_HEADS * SIZE
        for narrow in (False, True):
            problems = []
            for _ in range(max(1, min(8, 3 * L2 // size))):
                query, cache, *rest = problem(requests, length, 1)
                cache = cache.to(torch.float8_e4m3fn) if narrow else cache
                problems.append((query, cache, *rest, torch.empty_like(query)))
            for name, function in decodes(requests, length, narrow):
                us = microseconds(function, problems)
                line = {"decode": f"{requests}x{length}", "by": name, "float8": narrow}
                read = size / 2 if narrow else size
                print(json.dumps({**line, "us": round(us, 2), "GB/s": round(read / us / 1e3)}))
    for requests, length in PROMPTS if options.only != "decode" else ():
        query, *rest = problem(requests, length, length)
        arguments = [(query, *rest, torch.empty_like(query))]
        for name, function in prompts(requests, length):
            us = microseconds(function, arguments)
            flops = 2 * requests * length * length * HEADS * SIZE
            line = {"prompt": f"{requests}x{length}", "by": name, "us": round(us, 2)}
            print(json.dumps({**line, "TFLOP/s": round(flops / us / 1e6, 1)}), flush=True)


if __name__ == "__main__":
    main()
