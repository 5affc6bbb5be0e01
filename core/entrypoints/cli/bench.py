"""``runtime bench``: measure an engine or a server."""

from __future__ import annotations

from typing import Any

from runtime.core.entrypoints.bench import latency, serve, startup, throughput

BENCHMARKS = (latency, throughput, serve, startup)


def add_parser(subparsers: Any) -> None:
    """Add the command and its own subcommands."""
    parser = subparsers.add_parser(
        "bench",
        help="measure latency, throughput, a server or start-up",
        description="Measure an engine in this process, a server, or the start of a process.",
    )
    benchmarks = parser.add_subparsers(title="benchmarks", metavar="BENCHMARK", required=True)
    for benchmark in BENCHMARKS:
        benchmark.add_parser(benchmarks)
