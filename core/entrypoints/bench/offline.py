"""What the offline benchmarks share: flags, the engine, the times of its requests."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.core.entrypoints.bench.metrics import RequestRecord
from runtime.core.entrypoints.bench.prompts import TokenPrompts

if TYPE_CHECKING:
    from runtime.core.engine.outputs import RequestOutput
    from runtime.core.entrypoints.llm import LLM


def add_output_flag(parser: argparse.ArgumentParser) -> None:
    """Add where the results are saved."""
    parser.add_argument("--output-json", metavar="FILE", help="Save the results and the arguments")


def token_prompts(llm: LLM) -> TokenPrompts:
    """Random prompts of the model's own tokens."""
    tokenizer = llm.engine.tokenizer
    special = frozenset() if tokenizer is None else tokenizer.special_ids
    return TokenPrompts(llm.engine.config.model.vocab_size, special)


def records(outputs: Sequence[RequestOutput]) -> list[RequestRecord]:
    """The engine's own times of finished requests: of their first and their last token."""
    found = []
    for output in outputs:
        times = output.metrics
        record = RequestRecord(times["arrival_time"], len(output.prompt_token_ids))
        record.arrivals = [times["first_token_time"], times["finished_time"]]
        record.finished = times["finished_time"]
        record.output_tokens = len(output.outputs[0].token_ids)
        found.append(record)
    return found
