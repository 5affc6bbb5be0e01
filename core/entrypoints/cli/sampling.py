"""Sampling flags that the generating commands share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime.core.sampling.params import SamplingParams

_FLAGS: tuple[tuple[str, type, str], ...] = (
    ("temperature", float, "0 takes the most likely token"),
    ("top_p", float, "Sample from the most likely tokens that reach this probability"),
    ("top_k", int, "Sample from this many most likely tokens; 0 is all"),
    ("min_p", float, "Least probability relative to the most likely token's"),
    ("repetition_penalty", float, "Above 1 discourages tokens of prompt and output"),
    ("presence_penalty", float, "Discourages tokens that the output has"),
    ("frequency_penalty", float, "The same, for each time"),
    ("min_tokens", int, "Tokens before the output may end"),
)


def add_sampling_flags(parser: argparse.ArgumentParser, *, max_tokens: int) -> None:
    """Add flags; what is not given is left to the model's ``generation_config.json``."""
    group = parser.add_argument_group("Sampling")
    group.add_argument("--max-tokens", type=int, default=max_tokens, metavar="N")
    for name, kind, text in _FLAGS:
        metavar = "N" if kind is int else "X"
        group.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar=metavar, help=text)
    group.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="Ends the output (repeatable)"
    )
    group.add_argument(
        "--stop-token-ids", type=int, nargs="+", default=[], metavar="ID", help="End the output"
    )
    group.add_argument("--ignore-eos", action="store_true", help="Go on past end-of-sequence")


def sampling_params(args: argparse.Namespace, generation: Any) -> SamplingParams:
    """Parameters from the flags, over a checkpoint's generation config."""
    from runtime.core.sampling.params import SamplingParams

    return SamplingParams.from_generation_config(
        generation,
        max_tokens=args.max_tokens,
        stop=args.stop,
        stop_token_ids=args.stop_token_ids,
        ignore_eos=args.ignore_eos,
        **given_sampling(args),
    )


def given_sampling(args: argparse.Namespace) -> dict[str, Any]:
    """What the command line says of sampling, without what it leaves to the model."""
    values = {name: getattr(args, name) for name, _, _ in _FLAGS}
    return {name: value for name, value in values.items() if value is not None}
