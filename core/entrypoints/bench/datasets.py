"""The requests of a benchmark: random ones, ShareGPT-shaped conversations, shared prefixes."""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from runtime.core.entrypoints.bench.prompts import BenchPrompt
from runtime.core.errors import ConfigError

if TYPE_CHECKING:
    from runtime.core.tokenizer.interface import Tokenizer

_SHAREGPT_LEAST, _SHAREGPT_PROMPT, _SHAREGPT_TOTAL = 4, 1024, 2048
"""Tokens of the conversations that are used, by the custom of the benchmarks that use them."""


class DatasetName(StrEnum):
    """Where requests come from."""

    RANDOM = "random"
    SHAREGPT = "sharegpt"
    PREFIX_REPETITION = "prefix_repetition"


@dataclass(frozen=True)
class BenchRequest:
    """One request: a prompt and how many tokens it asks for."""

    prompt: BenchPrompt
    output_len: int


class PromptMaker(Protocol):
    """Makes random prompts of an exact length."""

    def make(
        self, rng: random.Random, length: int, prefix: BenchPrompt | None = None
    ) -> BenchPrompt:
        """A prompt of ``length`` tokens, after those of ``prefix``."""


def add_dataset_flags(parser: argparse.ArgumentParser) -> None:
    """Add the choice of a dataset and each dataset's own flags."""
    group = parser.add_argument_group("Dataset")
    group.add_argument(
        "--dataset-name",
        choices=[name.value for name in DatasetName],
        default=DatasetName.RANDOM.value,
    )
    group.add_argument("--dataset-path", metavar="FILE", help="JSON file of the sharegpt dataset")
    group.add_argument("--num-prompts", type=int, default=1000, metavar="N", help="Requests")
    group.add_argument(
        "--num-warmups", type=int, default=1, metavar="N", help="Requests before the measured ones"
    )
    group.add_argument(
        "--input-len", type=int, metavar="N", help="Prompt tokens, for whichever dataset"
    )
    group.add_argument(
        "--output-len", type=int, metavar="N", help="Output tokens, for whichever dataset"
    )
    group.add_argument("--random-input-len", type=int, default=1024, metavar="N")
    group.add_argument("--random-output-len", type=int, default=128, metavar="N")
    group.add_argument(
        "--random-range-ratio",
        type=float,
        default=0.0,
        metavar="X",
        help="Lengths are uniform within this part of the asked ones, in [0, 1)",
    )
    group.add_argument(
        "--random-prefix-len",
        type=int,
        default=0,
        metavar="N",
        help="Tokens that all prompts share, before the input's own",
    )
    group.add_argument(
        "--sharegpt-output-len", type=int, metavar="N", help="In place of the answers' lengths"
    )
    group.add_argument("--prefix-repetition-prefix-len", type=int, default=256, metavar="N")
    group.add_argument("--prefix-repetition-suffix-len", type=int, default=256, metavar="N")
    group.add_argument("--prefix-repetition-num-prefixes", type=int, default=10, metavar="N")
    group.add_argument("--prefix-repetition-output-len", type=int, default=128, metavar="N")


def sample_requests(
    args: argparse.Namespace, maker: PromptMaker, tokenizer: Tokenizer | None
) -> tuple[list[BenchRequest], list[BenchRequest]]:
    """Requests to warm up with, and requests to measure: none is in both.

    Args:
        args: the flags of :func:`add_dataset_flags`, and ``seed``.
        maker: of random prompts.
        tokenizer: of the sharegpt dataset's texts.

    Raises:
        ConfigError: a flag is out of range, or the file will not do.
    """
    check_counts(args, "num_prompts", least=1)
    check_counts(args, "num_warmups", least=0)
    rng = random.Random(args.seed)
    count = args.num_warmups + args.num_prompts
    match DatasetName(args.dataset_name):
        case DatasetName.RANDOM:
            requests = random_requests(args, maker, rng, count)
        case DatasetName.PREFIX_REPETITION:
            requests = prefix_repetition_requests(args, maker, rng, count)
        case DatasetName.SHAREGPT:
            if tokenizer is None:
                raise ConfigError("the sharegpt dataset needs a tokenizer")
            requests = sharegpt_requests(args, tokenizer, rng, count)
    return requests[: args.num_warmups], requests[args.num_warmups :]


def random_requests(
    args: argparse.Namespace, maker: PromptMaker, rng: random.Random, count: int
) -> list[BenchRequest]:
    """Requests of random tokens, ``random_prefix_len`` of them the same in all."""
    if args.input_len is not None:
        args.random_input_len = args.input_len
    if args.output_len is not None:
        args.random_output_len = args.output_len
    check_counts(args, "random_input_len", "random_output_len", least=1)
    check_counts(args, "random_prefix_len", least=0)
    ratio = args.random_range_ratio
    if not 0 <= ratio < 1:
        raise ConfigError(f"random_range_ratio={ratio} must be at least 0 and below 1")
    prefix = maker.make(rng, args.random_prefix_len) if args.random_prefix_len else None

    def length(about: int) -> int:
        low, high = math.ceil(about * (1 - ratio)), math.floor(about * (1 + ratio))
        return rng.randint(max(low, 1), high)

    return [
        BenchRequest(
            maker.make(rng, length(args.random_input_len), prefix), length(args.random_output_len)
        )
        for _ in range(count)
    ]


def prefix_repetition_requests(
    args: argparse.Namespace, maker: PromptMaker, rng: random.Random, count: int
) -> list[BenchRequest]:
    """Requests that share a few prefixes, as evenly as can be, in random order."""
    if args.input_len is not None:
        raise ConfigError(
            "input_len is not for the prefix_repetition dataset: set prefix_repetition_prefix_len "
            "and prefix_repetition_suffix_len"
        )
    if args.output_len is not None:
        args.prefix_repetition_output_len = args.output_len
    names = ("prefix_len", "suffix_len", "num_prefixes", "output_len")
    check_counts(args, *(f"prefix_repetition_{name}" for name in names), least=1)
    prefixes = [
        maker.make(rng, args.prefix_repetition_prefix_len)
        for _ in range(args.prefix_repetition_num_prefixes)
    ]
    requests = [
        BenchRequest(
            maker.make(rng, args.prefix_repetition_suffix_len, prefixes[index % len(prefixes)]),
            args.prefix_repetition_output_len,
        )
        for index in range(count)
    ]
    rng.shuffle(requests)
    return requests


def sharegpt_requests(
    args: argparse.Namespace, tokenizer: Tokenizer, rng: random.Random, count: int
) -> list[BenchRequest]:
    """First turns of conversations in random order; the second turns set the output lengths.

    Very short and very long ones are passed over.

    Raises:
        ConfigError: the file is damaged, or has too few usable conversations.
    """
    if args.input_len is not None:
        raise ConfigError("input_len is not for the sharegpt dataset: its prompts are the file's")
    fixed = args.sharegpt_output_len if args.output_len is None else args.output_len
    if fixed is not None and fixed < 1:
        raise ConfigError(f"output_len={fixed} must be at least 1")
    if args.dataset_path is None:
        raise ConfigError("the sharegpt dataset needs its file: --dataset-path FILE")
    pairs = read_sharegpt(args.dataset_path)
    rng.shuffle(pairs)
    requests: list[BenchRequest] = []
    for question, answer in pairs:
        if len(requests) == count:
            break
        ids = tokenizer.encode(question)
        output_len = fixed or len(tokenizer.encode(answer, add_special_tokens=False))
        if (
            _SHAREGPT_LEAST <= len(ids) <= _SHAREGPT_PROMPT
            and (fixed is not None or output_len >= _SHAREGPT_LEAST)
            and len(ids) + output_len <= _SHAREGPT_TOTAL
        ):
            requests.append(BenchRequest(BenchPrompt(tuple(ids), question), output_len))
    if len(requests) < count:
        raise ConfigError(
            f"{args.dataset_path} has {len(requests)} usable conversations; {count} are asked for: "
            "lower --num-prompts"
        )
    return requests


def read_sharegpt(name: str) -> list[tuple[str, str]]:
    """The first two turns of every conversation that has two.

    The file is a JSON array of ``{"conversations": [{"value": "…"}, {"value": "…"}, …]}``.

    Raises:
        ConfigError: the file cannot be read, or an entry has another shape; names its index.
    """
    try:
        entries = json.loads(Path(name).expanduser().read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--dataset-path {name}: {error}") from error
    except json.JSONDecodeError as error:
        raise ConfigError(f"--dataset-path {name}: not JSON: {error}") from error
    if not isinstance(entries, list):
        raise ConfigError(f"--dataset-path {name}: not a JSON array of conversations")
    pairs = []
    for index, entry in enumerate(entries):
        turns = entry.get("conversations") if isinstance(entry, Mapping) else None
        if not isinstance(turns, list):
            raise ConfigError(f"--dataset-path {name}: entry {index} has no list 'conversations'")
        texts = [_value(turn) for turn in turns[:2]]
        if None in texts:
            turn = texts.index(None)
            raise ConfigError(
                f"--dataset-path {name}: entry {index}: turn {turn} has no text 'value'"
            )
        if len(texts) == 2:
            pairs.append((str(texts[0]), str(texts[1])))
    return pairs


def _value(turn: Any) -> str | None:
    value = turn.get("value") if isinstance(turn, Mapping) else None
    return value if isinstance(value, str) else None


def check_counts(args: argparse.Namespace, *names: str, least: int) -> None:
    """ConfigError where one of these flags is below ``least``."""
    for name in names:
        value = getattr(args, name)
        if value < least:
            raise ConfigError(f"{name}={value} must be at least {least}")
