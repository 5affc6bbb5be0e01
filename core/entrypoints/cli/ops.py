"""``runtime ops``: which provider serves each op."""

from __future__ import annotations

import argparse
import json
from typing import Any

from runtime.core.entrypoints.cli.table import format_table


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "ops",
        help="show which provider serves each op",
        description="Show which provider serves each op on a platform, and why others do not.",
    )
    parser.add_argument("--platform", metavar="NAME", help="The platform; the best one found")
    parser.add_argument("--json", action="store_true", help="Print a JSON array")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Resolve and print."""
    from runtime.core.ops.registry import resolve_ops
    from runtime.core.platform.select import select_platform

    platform = select_platform(args.platform).platform
    platform.load_ops()
    rows = resolve_ops(platform, install=False).rows()
    if args.json:
        print(json.dumps(rows, indent=2))
        return 0
    lines = []
    for row in rows:
        rejected = "; ".join(f"{r['provider']}: {r['reason']}" for r in row["rejected"])
        provider = ", then ".join([row["provider"], *row["fallbacks"]])
        lines.append((row["op"], row["device_type"], provider, rejected or "-"))
    print(format_table(("OP", "DEVICE TYPE", "PROVIDER", "REJECTED"), lines))
    return 0
