"""``runtime plugins``: what was found, and what became of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.core.entrypoints.cli.explain import explain
from runtime.core.entrypoints.cli.table import format_table
from runtime.core.errors import PlatformError, RuntimeUserError
from runtime.core.platform.hardware import hardware_of
from runtime.core.platform.interface import Platform
from runtime.core.platform.probing import probe
from runtime.core.platform.select import select_platform
from runtime.plugins.errors import PluginError
from runtime.plugins.groups import HARDWARE_GROUP, PLATFORM_GROUP
from runtime.plugins.manager import PluginManager, default_manager
from runtime.plugins.records import PluginRecord, PluginState


@dataclass
class Survey:
    """Every plugin, loaded and probed as far as it can be."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """One for each plugin, as ``--json`` prints it."""
    platform: Platform | None = None
    """The one that an engine would run on."""
    chosen: str | None = None
    """How it was chosen."""
    hardware: list[str] = field(default_factory=list)
    """A line for each device that no platform serves."""
    error: RuntimeUserError | None = None
    """What an engine's start would end in."""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "plugins",
        help="list plugins and the chosen platform",
        description="List every plugin found, its state and the reason in words.",
    )
    parser.add_argument("--platform", metavar="NAME", help="Choose this platform")
    parser.add_argument("--explain", metavar="NAME", help="Tell all that is known of one plugin")
    parser.add_argument("--json", action="store_true", help="Print a JSON array")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the table; exit 2 where no platform can be chosen or a named plugin failed."""
    survey = survey_plugins(args.platform)
    if args.explain is not None:
        print(explain(default_manager(), args.explain, survey.rows))
        return 0
    if args.json:
        print(json.dumps(survey.rows, indent=2))
    else:
        print(_table(survey.rows))
        if survey.chosen is not None:
            print(f"\nplatform {survey.chosen}")
        for line in survey.hardware:
            print(line)
    if survey.error is not None:
        raise survey.error
    return 0


def survey_plugins(requested: str | None = None) -> Survey:
    """Choose a platform as an engine would, then look at all the others too."""
    survey = Survey()
    try:
        selection = select_platform(requested, announce=False)
        survey.platform, survey.chosen = selection.platform, selection.reason
    except PlatformError as caught:
        survey.error = caught
    manager = default_manager()
    try:
        manager.load_general()
    except PluginError as caught:
        survey.error = survey.error or RuntimeUserError(str(caught))
    for record in manager.records:
        score: int | None = None
        if record.state is not PluginState.FILTERED:
            try:
                score = _look(manager, record, survey)
            except PluginError as caught:
                survey.error = survey.error or RuntimeUserError(str(caught))
        survey.rows.append(_row(record, score, survey))
    return survey


def _look(manager: PluginManager, record: PluginRecord, survey: Survey) -> int | None:
    """Load or probe one plugin; a platform's score."""
    if record.group == PLATFORM_GROUP:
        return probe(manager, record).probe.score
    if record.group == HARDWARE_GROUP:
        lines = [str(hardware) for hardware in hardware_of(manager, record)]
        survey.hardware += lines
        if record.state is PluginState.LOADED:
            record.reason = "; ".join(lines) or "nothing that no platform serves"
    else:
        manager.load(record)
    return None


def _row(record: PluginRecord, score: int | None, survey: Survey) -> dict[str, Any]:
    is_platform = record.group == PLATFORM_GROUP
    if record.state in (PluginState.FILTERED, PluginState.FAILED):
        state = record.state.value
    elif is_platform and survey.platform is not None and record.name == survey.platform.name:
        state = "selected"
    elif is_platform and score is None:
        state = "not available"
    else:
        state = "available"
    return {
        "group": record.group,
        "name": record.name,
        "distribution": record.distribution,
        "version": record.version,
        "value": record.value,
        "state": state,
        "score": score,
        "reason": record.reason or ("-" if is_platform else "registered"),
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
