"""``runtime run-batch``: answer a file of requests, as OpenAI's Batch API has them."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from runtime.core.entrypoints.cli.flags import (
    add_engine_flags,
    add_fields,
    engine_args,
    flag_fields,
)
from runtime.core.entrypoints.server.args import ServerArgs
from runtime.core.errors import ConfigError

if TYPE_CHECKING:
    from runtime.core.config.args import EngineArgs
    from runtime.core.entrypoints.server.batch import BatchCounts
    from runtime.core.errors import EngineDeadError

_SHARED = frozenset(("served_model_name",))
_PER_SEQUENCE = 2
"""Requests on their way for each one that the engine runs at a time, so that it never waits."""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "run-batch",
        allow_abbrev=False,
        help="answer a file of requests, as OpenAI's Batch API has them",
        description="Answer each line of a file of requests; answers are written as they are "
        "ready, each with its request's custom_id. A request that fails has its error in its own "
        "line. The exit status is 0 if any was answered.",
    )
    group = parser.add_argument_group("Files")
    group.add_argument(
        "-i", "--input-file", metavar="FILE", required=True, help="JSON lines: the requests"
    )
    group.add_argument(
        "-o", "--output-file", metavar="FILE", required=True, help="JSON lines: the answers"
    )
    groups = add_engine_flags(parser)
    add_fields(parser, ServerArgs, groups, names=_server_flags())
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Answer the file."""
    engine = engine_args(args, args.parser)
    server = ServerArgs(**{name: _plain(getattr(args, name)) for name in _server_flags()})
    if importlib.util.find_spec("fastapi") is None:
        raise ConfigError("fastapi is not installed: pip install 'runtime[serve]'")
    source, target = Path(args.input_file), Path(args.output_file)
    total = _count(source)
    if not total:
        raise ConfigError(f"--input-file {source} has no requests")
    if target.exists() and target.samefile(source):
        raise ConfigError(f"--output-file {target} is the input")
    with ExitStack() as stack:
        lines = stack.enter_context(source.open("rb"))
        try:
            output = stack.enter_context(target.open("wb"))
        except OSError as error:
            raise ConfigError(f"--output-file {target}: {error.strerror}") from error
        counts, death = _answer(engine, server, lines, output, total)
    print(f"{counts.answered} answered, {counts.failed} failed: {target}", file=sys.stderr)
    if death is not None:
        print(f"runtime: error: {death}", file=sys.stderr)
    return 0 if counts.answered and death is None else 1


def _answer(
    engine_args: EngineArgs, args: ServerArgs, lines: BinaryIO, output: BinaryIO, total: int
) -> tuple[BatchCounts, EngineDeadError | None]:
    """How it went, and why the engine died if it did: what came after that has failed."""
    from tqdm import tqdm

    from runtime.core.engine.async_llm import AsyncLLM
    from runtime.core.entrypoints.server.api_keys import api_keys
    from runtime.core.entrypoints.server.app import build_app
    from runtime.core.entrypoints.server.batch import Batch
    from runtime.core.entrypoints.server.context import ServerContext, check_names

    check_names(args)
    with AsyncLLM.from_engine_args(engine_args) as llm, tqdm(total=total, unit="request") as bar:

        def write(line: bytes) -> None:
            output.write(line + b"\n")
            # What is there survives whatever comes.
            output.flush()
            bar.update()

        batch = Batch(
            build_app(ServerContext.create(llm, args)),
            write,
            concurrency=_PER_SEQUENCE * llm.config.scheduler.max_num_seqs,
            api_key=next(iter(api_keys(args.api_key)), None),
        )
        asyncio.run(batch.run(lines))
        return batch.counts, llm.dead_error


def _server_flags() -> frozenset[str]:
    """Flags of the server that bear upon answers."""
    chat = {one.name for one in flag_fields(ServerArgs) if one.metadata["group"] == "Chat"}
    return frozenset(chat | _SHARED)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, tuple) else value


def _count(path: Path) -> int:
    """Lines that are not blank.

    Raises:
        ConfigError: the file cannot be read.
    """

    def blocks() -> Iterator[bool]:
        with path.open("rb") as file:
            for line in file:
                yield bool(line.strip())

    try:
        return sum(blocks())
    except OSError as error:
        raise ConfigError(f"--input-file {path}: {error.strerror}") from error
