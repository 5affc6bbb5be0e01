"""What the engine asks of a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Tokenizer(Protocol):
    """A tokenizer with its chat template."""

    eos_token_id: int | None
    bos_token_id: int | None
    chat_template: str | None

    @property
    def vocab_size(self) -> int:
        """Token ids run from 0 to this, exclusive."""

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that ``skip_special_tokens`` leaves out of text."""

    @property
    def byte_ids(self) -> frozenset[int]:
        """Ids of byte-fallback tokens, of which only a whole run has a text; often none.

        Tokens of a byte-level vocabulary do not count: their bytes are decoded one by one.
        """

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text."""

    def encode_truncated(self, text: str, max_tokens: int) -> list[int]:
        """The same, cut at the end of the text to so many tokens, special ones included."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of token ids. Incomplete UTF-8 becomes U+FFFD."""

    def token_bytes(self) -> list[bytes]:
        """The bytes of each token as it stands in a text; empty for special tokens.

        Raises:
            RequestError: they cannot be told from this kind of tokenizer.
        """

    def token_text(self, token_id: int) -> str:
        """The token by itself, as logprobs show it."""

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The prompt text of a conversation; RequestError where there is no template."""
