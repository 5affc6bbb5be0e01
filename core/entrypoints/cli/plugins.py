"""``runtime plugins``: what was found, and what became of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from runtime.core.entrypoints.cli.table import format_table
from runtime.core.errors import PlatformError, RuntimeUserError
from runtime.core.platform.select import default_prober, select_platform
from runtime.plugins.errors import PluginError
from runtime.plugins.hookspecs import PLATFORM_GROUP
from runtime.plugins.manager import PluginRecord, PluginState


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "plugins",
        help="list plugins and the chosen platform",
        description="List every plugin found, its state and the reason in words.",
    )
    parser.add_argument("--platform", metavar="NAME", help="Choose this platform")
    parser.add_argument("--json", action="store_true", help="Print a JSON array")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the table; exit 2 where no platform can be chosen or a named plugin failed."""
    rows, chosen, error = describe_plugins(args.platform)
    if args.json:
        print(json.dumps(rows, indent=2))
    else:
        print(_table(rows))
        if chosen is not None:
            print(f"\nplatform {chosen}")
    if error is not None:
        raise error
    return 0


def describe_plugins(
    requested: str | None = None,
) -> tuple[list[dict[str, Any]], str | None, RuntimeUserError | None]:
    """A row for each plugin, why the platform was chosen, and the error an engine would end in."""
    chosen: str | None = None
    selected: str | None = None
    error: RuntimeUserError | None = None
    try:
        selection = select_platform(requested)
        chosen, selected = selection.reason, selection.platform.name
    except PlatformError as caught:
        error = caught
    prober = default_prober()
    rows = []
    for record in prober.manager.records:
        score: int | None = None
        if record.state is not PluginState.FILTERED:
            try:
                if record.group == PLATFORM_GROUP:
                    score = prober.probe(record).probe.score
                else:
                    prober.manager.load(record)
            except PluginError as caught:
                error = error or RuntimeUserError(str(caught))
        rows.append(_row(record, score, selected))
    return rows, chosen, error


def _row(record: PluginRecord, score: int | None, selected: str | None) -> dict[str, Any]:
    is_platform = record.group == PLATFORM_GROUP
    if record.state in (PluginState.FILTERED, PluginState.FAILED):
        state = record.state.value
    elif is_platform and record.name == selected:
        state = "selected"
    elif is_platform and score is None:
        state = "not available"
    else:
        state = "available"
    reason = record.reason or ("-" if is_platform else "registered")
    return {
        "group": record.group,
        "name": record.name,
        "distribution": record.distribution,
        "version": record.version,
        "value": record.value,
        "state": state,
        "score": score,
        "reason": reason,
        "load_ms": round(record.load_seconds * 1000, 1),
    }


def _table(rows: list[dict[str, Any]]) -> str:
    def cells(row: Mapping[str, Any]) -> tuple[str, ...]:
        return (
            row["group"].removeprefix("runtime."),
            row["name"],
            f"{row['distribution']} {row['version']}",
            row["state"],
            "-" if row["score"] is None else str(row["score"]),
            f"{row['load_ms']:.1f} ms",
            row["reason"],
        )

    header = ("GROUP", "NAME", "DISTRIBUTION", "STATE", "SCORE", "LOAD", "REASON")
    return format_table(header, [cells(row) for row in rows])
