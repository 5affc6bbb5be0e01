"""``runtime bench serve``: how a server answers under load, whichever engine is behind it."""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.core.entrypoints.bench.datasets import (
    BenchRequest,
    DatasetName,
    PromptMaker,
    add_dataset_flags,
    check_counts,
    sample_requests,
)
from runtime.core.entrypoints.bench.metrics import (
    TITLES,
    Metric,
    RequestRecord,
    parse_metrics,
    parse_percentiles,
    summarise,
)
from runtime.core.entrypoints.bench.prompts import TextPrompts, TokenPrompts
from runtime.core.entrypoints.bench.report import lines, report, save
from runtime.core.entrypoints.cli.flags import json_object
from runtime.core.entrypoints.cli.secrets import shown
from runtime.core.errors import ConfigError, RuntimeUserError

if TYPE_CHECKING:
    import httpx

    from runtime.core.entrypoints.bench.client import Target
    from runtime.core.tokenizer.interface import Tokenizer

_BACKENDS = ("openai", "openai-chat")
_INF = float("inf")
_TOKENS_REMEDY = " (if the server takes no token ids, add --text-prompts)"


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "serve",
        allow_abbrev=False,
        help="load a server that speaks the OpenAI API",
        description="Send a dataset to a server that speaks the OpenAI API, whichever engine is "
        "behind it, and tell how long its streams take. Exit status 1 where a request failed. "
        "$OPENAI_API_KEY, if set, is sent along.",
    )
    _add_server_flags(parser.add_argument_group("Server"))
    add_dataset_flags(parser)
    _add_load_flags(parser.add_argument_group("Load"))
    _add_result_flags(parser.add_argument_group("Results"))
    parser.set_defaults(run=run, parser=parser)


def _add_server_flags(group: Any) -> None:
    group.add_argument("--backend", choices=_BACKENDS, default=_BACKENDS[0], help="Which API")
    group.add_argument("--base-url", metavar="URL", help="Default: http://HOST:PORT")
    group.add_argument("--host", default="127.0.0.1")
    group.add_argument("--port", type=int, default=8000)
    group.add_argument(
        "--endpoint", metavar="PATH", help="Default: /v1/completions or /v1/chat/completions"
    )
    group.add_argument(
        "--model", metavar="NAME", help="The model's name there; the first that the server lists"
    )
    group.add_argument(
        "--tokenizer",
        metavar="PATH",
        help="Hugging Face directory or GGUF file of the server's tokenizer; default: --model, if "
        "that is a path",
    )
    group.add_argument(
        "--text-prompts",
        action="store_true",
        help="Send random prompts as text, for a server that takes no token ids; chats always do",
    )
    group.add_argument(
        "--extra-body", type=json_object, default={}, metavar="JSON", help="Fields of each request"
    )


def _add_load_flags(group: Any) -> None:
    group.add_argument(
        "--request-rate",
        type=float,
        default=_INF,
        metavar="X",
        help="Requests a second, at random times; inf sends all at once",
    )
    group.add_argument(
        "--burstiness",
        type=float,
        default=1.0,
        metavar="X",
        help="1 is a Poisson process; less comes in bursts, more is more regular",
    )
    group.add_argument(
        "--max-concurrency", type=int, metavar="N", help="Requests on their way at once"
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="Of prompts and times")
    group.add_argument(
        "--ignore-eos",
        action="store_true",
        help="Ask the server to go on past end-of-sequence: an extension of several engines",
    )
    group.add_argument(
        "--timeout", type=float, default=600.0, metavar="S", help="Seconds that it may be silent"
    )


def _add_result_flags(group: Any) -> None:
    group.add_argument(
        "--percentile-metrics",
        default=",".join(Metric),
        metavar="NAMES",
        help="Of these: ttft, tpot, itl, e2el",
    )
    group.add_argument("--metric-percentiles", default="90,99", metavar="NUMBERS")
    group.add_argument("--output-json", metavar="FILE", help="Save the results and the arguments")
    group.add_argument(
        "--save-result", action="store_true", help="The same, to a file named after the run"
    )
    group.add_argument("--result-dir", default=".", metavar="DIR", help="Where --save-result saves")
    group.add_argument("--result-filename", metavar="NAME", help="What --save-result names it")
    group.add_argument("--save-detailed", action="store_true", help="Save each request, too")
    group.add_argument("--disable-tqdm", action="store_true", help="Show no progress bar")


def run(args: argparse.Namespace) -> int:
    """Measure and print; 1 where a request failed."""
    import asyncio

    if importlib.util.find_spec("httpx") is None:
        raise ConfigError("runtime bench serve needs httpx: pip install 'runtime[bench]'")
    metrics = parse_metrics(args.percentile_metrics)
    percents = parse_percentiles(args.metric_percentiles)
    if args.max_concurrency is not None:
        check_counts(args, "max_concurrency", least=1)
    tokenizer = load_server_tokenizer(args)
    warmups, requests = sample_requests(args, prompt_maker(args, tokenizer), tokenizer)
    records, duration = asyncio.run(measure(args, warmups, requests))
    if all(record.error is not None for record in records):
        raise RuntimeUserError(f"all {len(records)} requests failed; the first: {records[0].error}")
    results = summarise(records, duration, metrics, percents)
    print(lines(rows(results, metrics, percents), "serve"))
    detailed = [detail(record) for record in records] if args.save_detailed else None
    document = report("serve", args, results)
    if detailed is not None:
        document["requests"] = detailed
    for name in result_files(args):
        save(document, name)
    return 1 if results["failed"] else 0


def load_server_tokenizer(args: argparse.Namespace) -> Tokenizer:
    """The tokenizer that prompts are made and counted with.

    Raises:
        ConfigError: none is named.
    """
    name = args.tokenizer
    if name is None and args.model is not None and Path(args.model).expanduser().exists():
        name = args.model
    if name is None:
        raise ConfigError(
            f"the {args.dataset_name} dataset needs the server's tokenizer: --tokenizer PATH, a "
            "Hugging Face directory or a GGUF file"
        )
    from runtime.core.tokenizer.load import tokenizer_at

    return tokenizer_at(name)


def prompt_maker(args: argparse.Namespace, tokenizer: Tokenizer) -> PromptMaker:
    """Of token ids where the server takes them: then it computes exactly as many as asked."""
    chat = args.backend == _BACKENDS[1]
    if DatasetName(args.dataset_name) is not DatasetName.SHAREGPT and (chat or args.text_prompts):
        # A chat's template adds its own tokens around the content.
        return TextPrompts(tokenizer, special_tokens=not chat)
    return TokenPrompts(tokenizer.vocab_size, tokenizer.special_ids)


async def measure(
    args: argparse.Namespace, warmups: Sequence[BenchRequest], requests: Sequence[BenchRequest]
) -> tuple[list[RequestRecord], float]:
    """Warm up, then send the requests; seconds from the first to the end of the last.

    Raises:
        RuntimeUserError: the server cannot be reached, or a warm-up failed.
    """
    from tqdm import tqdm

    from runtime.core.entrypoints.bench.client import KEY_VARIABLE, http_client, send
    from runtime.core.entrypoints.bench.load import allow_connections, arrival_times, run_load

    due = arrival_times(len(requests), args.request_rate, args.burstiness, random.Random(args.seed))
    allow_connections(min(len(requests), args.max_concurrency or len(requests)))
    async with http_client(os.environ.get(KEY_VARIABLE), args.timeout) as client:
        target = await find_target(args, client)
        for request in warmups:
            record = await send(client, target, request)
            if record.error is not None:
                url = shown("", target.url)
                remedy = _TOKENS_REMEDY if request.prompt.text is None else ""
                raise RuntimeUserError(
                    f"the warm-up request to {url} failed{remedy}: {record.error}"
                )
        with tqdm(total=len(requests), unit="req", disable=args.disable_tqdm) as bar:
            return await run_load(
                requests,
                due,
                lambda request: send(client, target, request),
                max_concurrency=args.max_concurrency,
                done=lambda _: bar.update(),
            )


async def find_target(args: argparse.Namespace, client: httpx.AsyncClient) -> Target:
    """Where requests go; asks the server for a model's name where none is given."""
    from runtime.core.entrypoints.bench.client import Backend, Target, first_model

    backend = Backend(args.backend)
    base = (args.base_url or f"http://{args.host}:{args.port}").rstrip("/")
    # Clients' base URLs often end in the version that the endpoint begins with.
    base = base.removesuffix("/v1")
    model = args.model or await first_model(client, base)
    return Target(
        backend, base + (args.endpoint or backend.endpoint), model, args.ignore_eos, args.extra_body
    )


def rows(
    results: dict[str, Any], metrics: Sequence[Metric], percents: Sequence[float]
) -> list[tuple[str, float | int | str]]:
    """What is printed."""
    table: list[tuple[str, float | int | str]] = [
        ("Successful requests", results["completed"]),
        ("Failed requests", results["failed"]),
        ("Duration (s)", results["duration_s"]),
        ("Input tokens", results["total_input_tokens"]),
        ("Output tokens", results["total_output_tokens"]),
        ("Request throughput (req/s)", results["request_throughput"]),
        ("Output token throughput (tok/s)", results["output_throughput"]),
        ("Total token throughput (tok/s)", results["total_token_throughput"]),
    ]
    for metric in metrics:
        for name in ("mean", "median", *(f"p{percent:g}" for percent in percents)):
            key = f"{name}_{metric}_ms"
            if key in results:
                table.append((f"{TITLES[metric]}, {name} (ms)", results[key]))
    if results["first_error"] is not None:
        table.append(("First error", results["first_error"]))
    return table


def detail(record: RequestRecord) -> dict[str, Any]:
    """One request as it is saved; times in seconds."""
    return {
        "prompt_tokens": record.prompt_tokens,
        "output_tokens": record.output_tokens,
        "ttft_s": next(iter(record.samples(Metric.TTFT)), None),
        "itl_s": record.samples(Metric.ITL),
        "e2el_s": next(iter(record.samples(Metric.E2EL)), None),
        "error": record.error,
    }


def result_files(args: argparse.Namespace) -> list[str]:
    """Where the results are saved."""
    names = [] if args.output_json is None else [args.output_json]
    if args.save_result:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        name = args.result_filename or f"{args.backend}-{args.request_rate:g}qps-{stamp}.json"
        names.append(str(Path(args.result_dir) / name))
    return names
