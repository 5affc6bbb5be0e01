"""The ``runtime`` command."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Sequence

from runtime.core.entrypoints.cli import (
    bench,
    chat,
    collect_env,
    complete,
    conformance,
    generate,
    new,
    ops,
    plugins,
    run_batch,
    serve,
)
from runtime.core.errors import RuntimeUserError
from runtime.core.logging import set_up_logging
from runtime.core.version import own_version
from runtime.plugins.errors import PluginError
from runtime.plugins.records import one_line

COMMANDS = (
    *(serve, generate, chat, complete, run_batch, bench),
    *(plugins, ops, conformance, collect_env, new),
)

_FLAG = re.compile(r"--[A-Za-z][A-Za-z0-9_-]*")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status.

    0 is success, 1 an unexpected failure (with its traceback), 2 something the user can mend (one
    line), 130 an interruption.
    """
    parser = build_parser()
    words = sys.argv[1:] if argv is None else argv
    args = parser.parse_args([with_dashes(word) for word in words])
    if not hasattr(args, "run"):
        parser.print_help()
        return 2
    try:
        set_up_logging()
        status: int = args.run(args)
        sys.stdout.flush()
    except (RuntimeUserError, PluginError) as error:
        print(f"runtime: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output has gone; nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if not _torch_fails():
            raise
        print(
            f"runtime: error: importing torch failed: {one_line(error)}; "
            "runtime collect-env shows what is installed",
            file=sys.stderr,
        )
        return 2
    return status


def with_dashes(word: str) -> str:
    """A flag spelled with underscores, as the Python arguments are, in the usual spelling."""
    flag, equals, value = word.partition("=")
    # A prompt may begin with dashes, too: argparse takes a word with blanks as a value.
    if not _FLAG.fullmatch(flag):
        return word
    return flag.replace("_", "-") + equals + value


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands. Imports nothing heavy."""
    parser = argparse.ArgumentParser(
        prog="runtime",
        description="LLM inference on whatever hardware a plugin brings.",
    )
    parser.add_argument("--version", action="version", version=f"runtime {own_version()}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(subparsers)
    return parser


def _torch_fails() -> bool:
    """Whether a command failed since torch cannot be imported.

    Every command that computes imports it, and each in its own place: asked is only when one has
    failed.
    """
    try:
        importlib.import_module("torch")
    except Exception:
        return True
    return False
