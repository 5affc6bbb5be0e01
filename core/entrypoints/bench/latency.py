"""``runtime bench latency``: how long one batch takes."""

from __future__ import annotations

import argparse
import random
import time
from typing import TYPE_CHECKING, Any

from runtime.core.entrypoints.bench import offline
from runtime.core.entrypoints.bench.datasets import check_counts
from runtime.core.entrypoints.bench.metrics import Metric, distribution
from runtime.core.entrypoints.bench.report import lines, platform_facts, report, save
from runtime.core.entrypoints.cli.flags import add_engine_flags, engine_args, open_llm
from runtime.core.errors import ConfigError

if TYPE_CHECKING:
    from runtime.core.entrypoints.llm import LLM

PERCENTS = (10.0, 25.0, 50.0, 75.0, 90.0, 99.0)


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "latency",
        allow_abbrev=False,
        help="time one batch of requests",
        description="Time a batch of random prompts, all sent at once, from first to last token. "
        "Prefix caching is off unless asked for: every iteration has the same prompts.",
    )
    group = parser.add_argument_group("Latency")
    for name, default, text in (
        ("input-len", 32, "Tokens of each prompt"),
        ("output-len", 128, "Tokens of each output, whatever the model says"),
        ("batch-size", 8, "Requests at once"),
        ("num-iters-warmup", 10, "Iterations before the measured ones"),
        ("num-iters", 30, "Iterations"),
    ):
        group.add_argument(f"--{name}", type=int, default=default, metavar="N", help=text)
    offline.add_output_flag(group)
    add_engine_flags(parser)
    parser.set_defaults(run=run, parser=parser, enable_prefix_caching=False)


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    engine_args(args, args.parser)
    check_counts(args, "input_len", "output_len", "batch_size", "num_iters", least=1)
    check_counts(args, "num_iters_warmup", least=0)
    with open_llm(args, args.parser) as llm:
        limit = llm.engine.config.scheduler.max_num_seqs
        if args.batch_size > limit:
            raise ConfigError(
                f"batch_size={args.batch_size} is above max_num_seqs={limit}: not one batch; "
                "raise --max-num-seqs"
            )
        results = measure(llm, args)
        document = report("latency", args, results, platform_facts(llm))
    print(lines(rows(results, args), "latency"))
    if args.output_json is not None:
        save(document, args.output_json)
    return 0


def measure(llm: LLM, args: argparse.Namespace) -> dict[str, Any]:
    """Run the iterations; times of batches in seconds, of tokens in milliseconds."""
    from tqdm import tqdm

    from runtime.core.sampling.params import SamplingParams

    maker, rng = offline.token_prompts(llm), random.Random(args.seed)
    prompts = [
        {"prompt_token_ids": list(maker.make(rng, args.input_len).token_ids)}
        for _ in range(args.batch_size)
    ]
    params = SamplingParams(
        temperature=0.0, max_tokens=args.output_len, ignore_eos=True, detokenize=False
    )
    latencies, records = [], []
    for index in tqdm(range(args.num_iters_warmup + args.num_iters), desc="Iterations"):
        start = time.perf_counter()
        outputs = llm.generate(prompts, params, use_tqdm=False)
        elapsed = time.perf_counter() - start
        if index >= args.num_iters_warmup:
            latencies.append(elapsed)
            records += offline.records(outputs)
    results: dict[str, Any] = distribution(latencies, PERCENTS, "latency")
    for metric in (Metric.TTFT, Metric.TPOT):
        values = [value for record in records for value in record.samples(metric)]
        results |= distribution(values, PERCENTS, metric.value)
    return {**results, "latencies_s": latencies}


def rows(results: dict[str, Any], args: argparse.Namespace) -> list[tuple[str, float | int | str]]:
    """What is printed."""
    batch = f"{args.batch_size} x ({args.input_len} in, {args.output_len} out)"
    shown: list[tuple[str, float | int | str]] = [
        ("Batch", batch),
        ("Mean latency (ms)", results["mean_latency_ms"]),
    ]
    shown += [
        (f"P{percent:g} latency (ms)", results[f"p{percent:g}_latency_ms"]) for percent in PERCENTS
    ]
    shown.append(("Median time to first token (ms)", results["median_ttft_ms"]))
    if "median_tpot_ms" in results:
        shown.append(("Median time per output token (ms)", results["median_tpot_ms"]))
    rate = 1000 * args.batch_size * args.output_len / results["median_latency_ms"]
    shown.append(("Output token throughput (tok/s)", rate))
    return shown
