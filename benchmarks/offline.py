"""Decode speed of one model on this machine: one JSON line for each dtype and batch size.

Usage: ``python benchmarks/offline.py MODEL [--dtype float32 bfloat16] [--batch 1 8]``.

Each figure is the median of three runs after a warm-up. Decode tokens/s are all tokens but each
request's first, over the time between the first and the last step that gave any.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import sys
import time

import torch

from runtime import LLM, SamplingParams

PROMPT_TOKENS = 128


def decode_rate(llm: LLM, batch: int, new_tokens: int) -> tuple[float, float]:
    """Tokens per second after the first token, and seconds to the first token of all."""
    params = SamplingParams(temperature=0, max_tokens=new_tokens, ignore_eos=True)
    engine = llm.engine
    start = time.perf_counter()
    for row in range(batch):
        prompt = [(row * 37 + 11 * i) % 40_000 + 100 for i in range(PROMPT_TOKENS)]
        salt = f"{start}-{row}"  # no run finds another's blocks
        engine.add_request(salt, {"prompt_token_ids": prompt, "cache_salt": salt}, params)
    first = None
    while engine.has_unfinished_requests:
        engine.step()
        first = first or time.perf_counter()
    assert first is not None
    elapsed = time.perf_counter() - first
    return batch * (new_tokens - 1) / elapsed, first - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--new-tokens", type=int, default=64)
    args = parser.parse_args()
    for dtype in args.dtype:
        llm = LLM(args.model, dtype=dtype, max_num_seqs=max(args.batch))
        for batch in args.batch:
            decode_rate(llm, batch, 8)
            runs = [decode_rate(llm, batch, args.new_tokens) for _ in range(3)]
            line = {
                "model": args.model.rsplit("/", 1)[-1],
                "platform": llm.engine.config.platform.name,
                "dtype": dtype,
                "batch": batch,
                "prompt_tokens": PROMPT_TOKENS,
                "new_tokens": args.new_tokens,
                "decode_tok_s": round(statistics.median(r for r, _ in runs), 2),
                "first_token_s": round(statistics.median(t for _, t in runs), 4),
                "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                "torch": torch.__version__,
                "threads": torch.get_num_threads(),
                "cpu": platform.processor() or platform.machine(),
            }
            print(json.dumps(line), flush=True)
        llm.shutdown()
        del llm


if __name__ == "__main__":
    sys.exit(main())
