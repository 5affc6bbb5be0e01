"""Results as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.peers.engines import BY_NAME
from benchmarks.peers.results import Comparison, Median, compare, failures, medians
from benchmarks.peers.workloads import FIGURES, WORKLOADS, Figure


def markdown(document: Mapping[str, Any]) -> str:
    """All tables of a results file."""
    records = document["records"]
    parts = [_machine(document), _summary(records)]
    for letter, workload in WORKLOADS.items():
        for figure in FIGURES:
            found = medians(records, figure)
            if figure.workload == letter and found:
                title = f"## ({letter}) {workload.title}: {figure.title}"
                parts.append(f"{title}\n\n{table(found, figure)}")
    rows = _failure_rows(document)
    if rows:
        header = ["round", "engine", "workload", "error"]
        parts.append(f"## What did not run\n\n{grid(header, rows)}")
    return "\n\n".join(parts) + "\n"


def name(engine: str, precision: str) -> str:
    """An engine with the form of its weights."""
    return f"{BY_NAME[engine].title} {precision}"


def table(found: Sequence[Median], figure: Figure) -> str:
    """Medians with their range, the best first."""
    ordered = sorted(found, key=lambda median: median.value, reverse=figure.higher_is_better)
    rows = [
        [
            name(median.engine, median.precision),
            number(median.value),
            f"{number(median.lowest)} – {number(median.highest)}",
            str(median.rounds),
        ]
        for median in ordered
    ]
    return grid(["engine", figure.title, "range", "rounds"], rows)


def _summary(records: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        _summary_row(figure, row)
        for figure in FIGURES
        for row in compare(medians(records, figure), figure)
    ]
    header = ["workload", "figure", "weights", "ours", "best peer", "ratio"]
    return f"## Beside the best peer\n\nAbove 1 ours is better.\n\n{grid(header, rows)}"


def _summary_row(figure: Figure, row: Comparison) -> list[str]:
    peer = name(row.peer.engine, row.peer.precision)
    return [
        f"({figure.workload})",
        figure.title,
        row.group,
        f"{number(row.ours.value)} ({row.ours.precision})",
        f"{number(row.peer.value)} ({peer})",
        f"{row.ratio:.2f}",
    ]


def _failure_rows(document: Mapping[str, Any]) -> list[list[str]]:
    rows = [
        ["-", BY_NAME[engine].title, "-", f"not installed: {reason}"]
        for engine, reason in document["failed_installs"].items()
    ]
    rows += [
        [
            str(record["round"] + 1),
            name(record["engine"], record["precision"]),
            record["workload"],
            record["error"],
        ]
        for record in failures(document["records"])
    ]
    return [[cell.replace("|", "\\|") for cell in row] for row in rows]


def _machine(document: Mapping[str, Any]) -> str:
    host, ceilings = document["host"], document["ceilings"]
    versions = ", ".join(
        f"{BY_NAME[engine].title} {found}" for engine, found in document["versions"].items()
    )
    gigabytes = statistics.median(one["read_bytes_s"] for one in ceilings) / 1e9
    gemm = {
        kind: statistics.median(one[f"gemm_{kind}_flop_s"] for one in ceilings) / 1e9
        for kind in ("float32", "bfloat16")
    }
    shares = [record["foreign_cpu_share"] for record in document["records"]]
    lines = [
        f"# Beside other engines, {document['date'][:10]}",
        "",
        f"{host['processor']}, {document['threads']} threads. It reads {number(gigabytes)} GB/s",
        f"and multiplies matrices at {number(gemm['float32'])} GFLOP/s in float32,",
        f"{number(gemm['bfloat16'])} in bfloat16 (torch). Other work took",
        f"{100 * statistics.median(shares):.0f} % of the processor in the median process,",
        f"{100 * max(shares):.0f} % in the worst.",
        "",
        f"{versions}.",
    ]
    return "\n".join(lines)


def number(value: float) -> str:
    """Three significant digits, or all before the point."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
