"""``runtime bench throughput``: how much an engine does when everything is there at once."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from runtime.core.entrypoints.bench import offline
from runtime.core.entrypoints.bench.datasets import (
    BenchRequest,
    add_dataset_flags,
    sample_requests,
)
from runtime.core.entrypoints.bench.report import lines, platform_facts, report, save
from runtime.core.entrypoints.cli.flags import add_engine_flags, engine_args, open_llm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.core.engine.outputs import RequestOutput
    from runtime.core.entrypoints.llm import LLM


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "throughput",
        allow_abbrev=False,
        help="time many requests, all given at once",
        description="Time a dataset whose requests are all given to the engine at once.",
    )
    add_dataset_flags(parser)
    group = parser.add_argument_group("Throughput")
    group.add_argument(
        "--ignore-eos",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="Go on past end-of-sequence, so that every output has the length asked for",
    )
    offline.add_output_flag(group)
    add_engine_flags(parser)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    engine_args(args, args.parser)
    with open_llm(args, args.parser) as llm:
        maker = offline.token_prompts(llm)
        warmups, requests = sample_requests(args, maker, llm.engine.tokenizer)
        if warmups:
            generate(llm, warmups, ignore_eos=args.ignore_eos, use_tqdm=False)
        start = time.perf_counter()
        outputs = generate(llm, requests, ignore_eos=args.ignore_eos, use_tqdm=True)
        results = summarise(outputs, time.perf_counter() - start)
        document = report("throughput", args, results, platform_facts(llm))
    print(lines(rows(results), "throughput"))
    if args.output_json is not None:
        save(document, args.output_json)
    return 0


def generate(
    llm: LLM, requests: Sequence[BenchRequest], *, ignore_eos: bool, use_tqdm: bool
) -> list[RequestOutput]:
    """Run requests, greedily, without making text of their outputs."""
    from runtime.core.sampling.params import SamplingParams

    params = [
        SamplingParams(
            temperature=0.0,
            max_tokens=request.output_len,
            ignore_eos=ignore_eos,
            detokenize=False,
        )
        for request in requests
    ]
    prompts = [{"prompt_token_ids": list(request.prompt.token_ids)} for request in requests]
    return llm.generate(prompts, params, use_tqdm=use_tqdm)


def summarise(outputs: Sequence[RequestOutput], elapsed: float) -> dict[str, Any]:
    """The figures of a run of ``elapsed`` seconds."""
    inputs = sum(len(output.prompt_token_ids) for output in outputs)
    produced = sum(len(output.outputs[0].token_ids) for output in outputs)
    return {
        "elapsed_s": elapsed,
        "num_requests": len(outputs),
        "total_input_tokens": inputs,
        "cached_input_tokens": sum(output.num_cached_tokens for output in outputs),
        "total_output_tokens": produced,
        "requests_per_second": len(outputs) / elapsed,
        "tokens_per_second": (inputs + produced) / elapsed,
        "output_tokens_per_second": produced / elapsed,
    }


def rows(results: dict[str, Any]) -> list[tuple[str, float | int | str]]:
    """What is printed."""
    return [
        ("Requests", results["num_requests"]),
        ("Duration (s)", results["elapsed_s"]),
        ("Input tokens", results["total_input_tokens"]),
        ("of them cached", results["cached_input_tokens"]),
        ("Output tokens", results["total_output_tokens"]),
        ("Request throughput (req/s)", results["requests_per_second"]),
        ("Total token throughput (tok/s)", results["tokens_per_second"]),
        ("Output token throughput (tok/s)", results["output_tokens_per_second"]),
    ]
