"""``runtime bench startup``: from the start of a process to its first token."""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.core.entrypoints.bench import offline
from runtime.core.entrypoints.bench.datasets import check_counts
from runtime.core.entrypoints.bench.report import lines, report, save
from runtime.core.entrypoints.bench.startup_child import READY, TOKEN
from runtime.core.entrypoints.cli.flags import add_engine_flags, engine_args
from runtime.core.errors import RuntimeUserError

CHILD = (sys.executable, "-m", "runtime.core.entrypoints.bench.startup_child")
_MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Start:
    """One start of an engine."""

    ready_s: float
    """From before the process existed until the engine would take requests."""
    first_token_s: float
    """Until it had generated a token from a prompt of eight."""
    peak_rss_bytes: int
    """Most memory of the process, the files that it mapped and read included."""
    platform: Mapping[str, Any]
    """What it ran on."""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "startup",
        allow_abbrev=False,
        help="time the start of a process",
        description="Start the engine in fresh processes and tell how long it takes until the "
        "engine is ready and until the first token, and the most memory it takes. Medians.",
    )
    group = parser.add_argument_group("Start-up")
    group.add_argument("--num-iters", type=int, default=5, metavar="N", help="Starts")
    group.add_argument(
        "--num-iters-warmup",
        type=int,
        default=1,
        metavar="N",
        help="Starts before, which bring the files into the system's cache",
    )
    offline.add_output_flag(group)
    add_engine_flags(parser)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    given = engine_args(args, args.parser)
    check_counts(args, "num_iters", least=1)
    check_counts(args, "num_iters_warmup", least=0)
    arguments = {
        field.name: getattr(given, field.name)
        for field in dataclasses.fields(given)
        if getattr(given, field.name) != field.default
    }
    for _ in range(args.num_iters_warmup):
        start_once(CHILD, arguments)
    starts = [start_once(CHILD, arguments) for _ in range(args.num_iters)]
    results = summarise(starts)
    print(lines(rows(results), "startup"))
    if args.output_json is not None:
        save(report("startup", args, results, starts[0].platform), args.output_json)
    return 0


def start_once(command: Sequence[str], arguments: Mapping[str, Any]) -> Start:
    """Start a child and note when its lines come.

    Raises:
        RuntimeUserError: it ended before its time; with the last line that it wrote to stderr.
    """
    seen: dict[str, float] = {}
    last = ""
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as log:
        json.dump(arguments, given)
        given.seek(0)
        begin = time.perf_counter()
        with subprocess.Popen(
            command, stdin=given, stdout=subprocess.PIPE, stderr=log, text=True
        ) as child:
            assert child.stdout is not None
            for line in child.stdout:
                last = line.strip()
                seen[last] = time.perf_counter() - begin
        log.seek(0)
        words = log.read().strip().splitlines()
    if child.returncode != 0 or READY not in seen or TOKEN not in seen:
        told = words[-1].removeprefix("runtime: error: ") if words else "no word on stderr"
        raise RuntimeUserError(f"the engine did not start (exit status {child.returncode}): {told}")
    facts = json.loads(last)
    return Start(seen[READY], seen[TOKEN], facts["peak_rss_bytes"], facts["platform"])


def summarise(starts: Sequence[Start]) -> dict[str, Any]:
    """Medians, and each start."""
    return {
        "num_starts": len(starts),
        "median_ready_s": statistics.median(start.ready_s for start in starts),
        "median_first_token_s": statistics.median(start.first_token_s for start in starts),
        "median_peak_rss_bytes": int(statistics.median(start.peak_rss_bytes for start in starts)),
        "starts": [dataclasses.asdict(start) for start in starts],
    }


def rows(results: Mapping[str, Any]) -> list[tuple[str, float | int | str]]:
    """What is printed."""
    return [
        ("Starts", results["num_starts"]),
        ("Median until ready (s)", results["median_ready_s"]),
        ("Median until first token (s)", results["median_first_token_s"]),
        ("Median peak memory (MiB)", results["median_peak_rss_bytes"] / _MIB),
    ]
