"""``runtime conformance``: does a platform do what every platform must?"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import runtime.core
from runtime.core.errors import ConfigError, RuntimeUserError

_PASSED, _FAILED, _INTERRUPTED, _NONE_RUN = 0, 1, 2, 5
"""Exit statuses of pytest."""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "conformance",
        help="test a platform against the contract that all keep",
        description="Run the conformance suite on a platform and print what passes, what fails "
        "and what is unsupported, with the reasons. Exit status 1 where anything fails.",
    )
    parser.add_argument("--platform", metavar="NAME", help="The platform; the best one found")
    parser.add_argument("--op", metavar="NAME", help="Only this op")
    parser.add_argument("--perf", action="store_true", help="Time ops against their references")
    parser.add_argument("--seed", metavar="N", type=int, help="Seed of the random inputs")
    parser.add_argument(
        "--markdown",
        metavar="FILE",
        nargs="?",
        const="-",
        help="Write the report as Markdown; without FILE print it so",
    )
    parser.add_argument("--junit", metavar="FILE", help="Write a JUnit XML file")
    parser.add_argument(
        "--support", metavar="FILE", help="Write the platform's section of a support document"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run pytest on the suite, in a process of its own."""
    from runtime.core.platform.select import select_platform

    if importlib.util.find_spec("pytest") is None:
        raise ConfigError("the conformance suite needs pytest: pip install 'runtime[test]'")
    platform = select_platform(args.platform).platform.name
    # Not configured by the folder that one happens to be in; its tests are not the suite's.
    root = Path(runtime.core.__file__).parents[2]
    words = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(root)]
    words += ["-q", "-p", "no:cacheprovider", "--import-mode=importlib"]
    words += [f"--runtime-platform={platform}", *options(args)]
    if args.junit is not None:
        words.append(f"--junitxml={args.junit}")
    status = subprocess.call(words)
    if status == _INTERRUPTED:
        raise KeyboardInterrupt
    if status == _NONE_RUN:
        raise RuntimeUserError("no case of the conformance suite was run")
    # Anything else is a usage error, which pytest has explained.
    return status if status in (_PASSED, _FAILED) else 2


def options(args: argparse.Namespace) -> list[str]:
    """The pytest plugin's options."""
    given = {
        "op": args.op,
        "seed": args.seed,
        "markdown": args.markdown,
        "support": args.support,
    }
    words = [f"--runtime-{name}={value}" for name, value in given.items() if value is not None]
    return [*words, "--runtime-perf"] if args.perf else words
