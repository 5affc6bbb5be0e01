"""Tokens that end an output."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.core.config.runtime import RuntimeConfig
    from runtime.core.tokenizer.interface import Tokenizer


def eos_token_ids(config: RuntimeConfig, tokenizer: Tokenizer | None) -> list[int]:
    """End-of-sequence tokens: the tokenizer's and all that the generation config names."""
    found: list[int] = []
    own = tokenizer.eos_token_id if tokenizer is not None else config.model.hf.get("eos_token_id")
    for value in (own, config.model.generation.get("eos_token_id")):
        ids = value if isinstance(value, list) else [] if value is None else [value]
        found += [int(token_id) for token_id in ids if int(token_id) not in found]
    return [token_id for token_id in found if 0 <= token_id < config.model.vocab_size]
