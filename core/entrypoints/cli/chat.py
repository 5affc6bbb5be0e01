"""``runtime chat``: talk to a model in the terminal."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

from runtime.core.entrypoints.cli.flags import add_engine_flags, model_of, open_llm
from runtime.core.entrypoints.cli.remote import RemoteServer, add_server_flags, sampling_of
from runtime.core.entrypoints.cli.sampling import add_sampling_flags, sampling_params
from runtime.core.errors import RequestError

if TYPE_CHECKING:
    from runtime.core.entrypoints.llm import LLM
    from runtime.core.sampling.params import SamplingParams

HELP = "/reset forgets the conversation, /exit or Ctrl-D ends, Ctrl-C stops an answer."


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "chat",
        allow_abbrev=False,
        help="talk to a model in the terminal",
        description="Talk to a model, of this machine or with --url of a server; answers appear "
        f"as they are generated. {HELP}",
    )
    group = parser.add_argument_group("Conversation")
    group.add_argument("--system", metavar="TEXT", help="The system message")
    add_server_flags(parser, default=None)
    add_sampling_flags(parser, max_tokens=512)
    add_engine_flags(parser)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Load the model, or reach the server, and talk until the input ends."""
    if args.url is not None:
        if model_of(args, args.parser) is not None:
            args.parser.error("MODEL is for a model of this machine; with --url, see --model-name")
        sampling = sampling_of(args)
        with RemoteServer.from_flags(args) as server:
            converse(lambda messages: server.chat(messages, sampling), args.system)
        return 0
    with open_llm(args, args.parser) as llm:
        llm.get_tokenizer()
        params = sampling_params(args, llm.engine.config.model.generation)
        converse(lambda messages: pieces(llm, messages, params), args.system)
    return 0


Messages = list[dict[str, str]]


def pieces(llm: LLM, messages: Messages, params: SamplingParams) -> Iterator[str]:
    """A loaded model's answer, piece by piece."""
    shown = ""
    with contextlib.closing(llm.stream_chat(messages, params)) as stream:
        for output in stream:
            text = output.outputs[0].text
            yield text[len(shown) :]
            shown = text


def converse(answer: Callable[[Messages], Iterator[str]], system: str | None) -> None:
    """Read turns from standard input and stream the answers to standard output."""
    start = [{"role": "system", "content": system}] if system else []
    messages = list(start)
    interactive = sys.stdin.isatty()
    if interactive:
        print(HELP, file=sys.stderr)
    while True:
        try:
            turn = input("> " if interactive else "").strip()
        except EOFError:
            return
        if turn in ("/exit", "/quit"):
            return
        if turn == "/reset":
            messages = list(start)
        elif turn:
            messages.append({"role": "user", "content": turn})
            try:
                said = _show(answer(messages))
            except RequestError as error:
                # The engine goes on; the turn that it refused is forgotten.
                print(f"runtime: {error}", file=sys.stderr)
                messages.pop()
            else:
                messages.append({"role": "assistant", "content": said})


def _show(stream: Iterator[str]) -> str:
    """Print one answer as it comes and return it; Ctrl-C cuts it short."""
    shown = ""
    try:
        for piece in stream:
            print(piece, end="", flush=True)
            shown += piece
    except KeyboardInterrupt:
        # Closing a generator ends the request.
        if isinstance(stream, Generator):
            stream.close()
    print(flush=True)
    return shown
