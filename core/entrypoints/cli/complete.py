"""``runtime complete``: have a server continue texts that are typed in the terminal."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from runtime.core.entrypoints.cli.remote import RemoteServer, add_server_flags, sampling_of
from runtime.core.entrypoints.cli.sampling import add_sampling_flags
from runtime.core.errors import RequestError


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "complete",
        allow_abbrev=False,
        help="have a server continue texts",
        description="Have a server continue each line of standard input; Ctrl-D ends.",
    )
    parser.add_argument("-q", "--quick", metavar="TEXT", help="Continue this text alone")
    add_server_flags(parser, default="http://localhost:8000")
    add_sampling_flags(parser, max_tokens=128)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Continue one text, or lines until the input ends."""
    sampling = sampling_of(args)
    with RemoteServer.from_flags(args) as server:
        if args.quick is not None:
            _show(server, args.quick, sampling)
            return 0
        interactive = sys.stdin.isatty()
        while True:
            try:
                text = input("> " if interactive else "")
            except EOFError:
                return 0
            if not text.strip():
                continue
            try:
                _show(server, text, sampling)
            except RequestError as error:
                print(f"runtime: {error}", file=sys.stderr)


def _show(server: RemoteServer, text: str, sampling: dict[str, Any]) -> None:
    for piece in server.complete(text, sampling):
        print(piece, end="", flush=True)
    print(flush=True)
