"""What the server costs: the same work through ``LLM`` in process and through HTTP streams.

    python benchmarks/serve_overhead.py MODEL.gguf [--rounds 3] [--out FILE]

128 tokens in, 64 out, greedy, prefix cache off, 1, 16 and 64 clients at once; medians of the
rounds, which alternate between the two.
"""

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

from raw_http import serving, stream

from runtime import LLM, SamplingParams

TOKENS_IN, TOKENS_OUT = 128, 64
CLIENTS = (1, 16, 64)
RAW = argparse.RawTextHelpFormatter


def prompts(count: int, seed: int) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(1000, 40000) for _ in range(TOKENS_IN)] for _ in range(count)]


def in_process(llm: LLM, count: int, seed: int) -> tuple[float, float]:
    """Output tokens a second, and the median time to the first token."""
    params = SamplingParams(temperature=0, max_tokens=TOKENS_OUT, ignore_eos=True)
    begin = time.perf_counter()
    items = [{"prompt_token_ids": ids} for ids in prompts(count, seed)]
    outputs = llm.generate(items, params, use_tqdm=False)
    spent = time.perf_counter() - begin
    first = [o.metrics["first_token_time"] - o.metrics["arrival_time"] for o in outputs]
    return count * TOKENS_OUT / spent, statistics.median(first)


async def through_http(port: int, count: int, seed: int) -> tuple[float, float]:
    """The same."""
    fields = {"temperature": 0, "max_tokens": TOKENS_OUT, "ignore_eos": True, "stream": True}
    begin = time.perf_counter()
    answers = await asyncio.gather(
        *(
            stream(port, "/v1/completions", {"prompt": ids, **fields})
            for ids in prompts(count, seed)
        )
    )
    spent = time.perf_counter() - begin
    assert all(answer.complete for answer in answers)
    return count * TOKENS_OUT / spent, statistics.median(answer.first for answer in answers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=RAW)
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out")
    options = parser.parse_args()
    found: dict = {}
    flags = ("--no-enable-prefix-caching", "--disable-uvicorn-access-log", "--max-num-seqs", "64")
    llm = LLM(options.model, enable_prefix_caching=False, max_num_seqs=64, use_tqdm_on_load=False)
    with (
        llm,
        tempfile.TemporaryDirectory() as name,
        serving(options.model, *flags, log=f"{name}/log") as (_, port),
    ):
        for turn in range(-1, options.rounds):
            for count in CLIENTS:
                # Both get the same prompts; the first turn warms up.
                ways = {
                    "llm": lambda count=count, turn=turn: in_process(llm, count, turn),
                    "http": lambda c=count, t=turn: asyncio.run(through_http(port, c, t)),
                }
                for way, work in ways.items():
                    figures = work()
                    if turn >= 0:
                        found.setdefault((way, count), []).append(figures)
    lines = []
    for count in CLIENTS:
        line = {"clients": count}
        for way in ("llm", "http"):
            rates, firsts = zip(*found[way, count], strict=True)
            line[f"{way}_tok_s"] = round(statistics.median(rates), 1)
            line[f"{way}_first_token_ms"] = round(1e3 * statistics.median(firsts), 1)
        line["http_over_llm"] = round(line["http_tok_s"] / line["llm_tok_s"], 3)
        lines.append(json.dumps(line))
    print("\n".join(lines))
    if options.out:
        Path(options.out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
