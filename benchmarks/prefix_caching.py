"""What prefix caching saves: requests that share a long beginning, with and without it.

Usage: ``python benchmarks/prefix_caching.py MODEL``. One JSON line each; medians of three runs,
each on prompts that no other run has seen.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import time

from runtime import LLM, SamplingParams

SHARED_TOKENS, OWN_TOKENS, NEW_TOKENS, REQUESTS = 1024, 32, 32, 16


def prompts(run: int) -> list[list[int]]:
    """Prompts that share their first tokens, other ones in each run."""
    head = [(run * 7919 + 31 * i) % 40_000 + 100 for i in range(SHARED_TOKENS)]
    return [
        head + [(run + 17 * row + 5 * i) % 40_000 + 100 for i in range(OWN_TOKENS)]
        for row in range(REQUESTS)
    ]


def wall_seconds(llm: LLM, run: int) -> tuple[float, int]:
    """Seconds for all requests, and prompt tokens that came from the cache."""
    params = SamplingParams(temperature=0, max_tokens=NEW_TOKENS, ignore_eos=True)
    requests = [{"prompt_token_ids": tokens} for tokens in prompts(run)]
    start = time.perf_counter()
    outputs = llm.generate(requests, params, use_tqdm=False)
    return time.perf_counter() - start, sum(output.num_cached_tokens for output in outputs)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--dtype", default="float32")
    args = parser.parse_args()
    engines = {
        caching: LLM(args.model, dtype=args.dtype, enable_prefix_caching=caching, max_num_seqs=16)
        for caching in (False, True)
    }
    runs = itertools.count()
    for llm in engines.values():
        wall_seconds(llm, next(runs))
    seconds: dict[bool, list[float]] = {False: [], True: []}
    cached: dict[bool, int] = {}
    for _ in range(3):
        for caching, llm in engines.items():  # interleaved: both see the same machine
            took, cached[caching] = wall_seconds(llm, next(runs))
            seconds[caching].append(took)
    for caching, taken in seconds.items():
        line = {
            "enable_prefix_caching": caching,
            "dtype": args.dtype,
            "requests": REQUESTS,
            "shared_tokens": SHARED_TOKENS,
            "own_tokens": OWN_TOKENS,
            "new_tokens": NEW_TOKENS,
            "wall_s": round(statistics.median(taken), 2),
            "cached_prompt_tokens": cached[caching],
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
