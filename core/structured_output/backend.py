"""The backend of one engine: its class, and the model's vocabulary as it sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.core.loader.open import open_checkpoint
from runtime.core.structured_output.interface import StructuredOutputBackend, Vocabulary
from runtime.core.structured_output.registry import load_backend, qualified_name
from runtime.core.tokenizer.load import load_tokenizer
from runtime.core.tokenizer.special import eos_token_ids

if TYPE_CHECKING:
    from runtime.core.config.runtime import RuntimeConfig
    from runtime.core.tokenizer.interface import Tokenizer


def model_vocabulary(config: RuntimeConfig, tokenizer: Tokenizer) -> Vocabulary:
    """The tokens of a model.

    Raises:
        RequestError: the tokens' bytes cannot be told from the tokenizer.
    """
    size = config.model.vocab_size
    return Vocabulary(
        token_bytes=tuple(tokenizer.token_bytes()[:size]),
        size=size,
        eos_token_ids=tuple(eos_token_ids(config, tokenizer)),
    )


def load_engine_backend(config: RuntimeConfig) -> StructuredOutputBackend:
    """The backend that an engine names, with a tokenizer that is read anew: the engine has none."""
    backend_class = load_backend(qualified_name(config.structured_outputs.backend))
    checkpoint = open_checkpoint(config.model.model, config.load.load_format)
    tokenizer = load_tokenizer(checkpoint, config.model.tokenizer)
    return backend_class(model_vocabulary(config, tokenizer))
