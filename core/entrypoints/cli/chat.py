"""``runtime chat``: talk to a model in the terminal."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from runtime.core.entrypoints.cli.flags import add_engine_flags, open_llm
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
        description=f"Talk to a model; answers appear as they are generated. {HELP}",
    )
    group = parser.add_argument_group("Conversation")
    group.add_argument("--system", metavar="TEXT", help="The system message")
    add_sampling_flags(parser, max_tokens=512)
    add_engine_flags(parser)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Load the model and talk until the input ends."""
    with open_llm(args, args.parser) as llm:
        llm.get_tokenizer()
        params = sampling_params(args, llm.engine.config.model.generation)
        converse(llm, params, args.system)
    return 0


def converse(llm: LLM, params: SamplingParams, system: str | None) -> None:
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
                answer = _answer(llm, messages, params)
            except RequestError as error:
                # The engine goes on; the turn that it refused is forgotten.
                print(f"runtime: {error}", file=sys.stderr)
                messages.pop()
            else:
                messages.append({"role": "assistant", "content": answer})


def _answer(llm: LLM, messages: list[dict[str, str]], params: SamplingParams) -> str:
    """Stream one answer and return it; Ctrl-C cuts it short."""
    shown = ""
    stream = llm.stream_chat(messages, params)
    try:
        for output in stream:
            text = output.outputs[0].text
            print(text[len(shown) :], end="", flush=True)
            shown = text
    except KeyboardInterrupt:
        stream.close()
    print(flush=True)
    return shown
