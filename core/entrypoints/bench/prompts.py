"""Random prompts with an exact number of tokens."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.core.errors import ConfigError

if TYPE_CHECKING:
    import random

    from runtime.core.tokenizer.interface import Tokenizer

_POOL = 2000
"""Words that a text prompt is drawn from, at most."""
_FEWEST_WORDS = 16


@dataclass(frozen=True)
class BenchPrompt:
    """A prompt as a server or an engine gets it."""

    token_ids: Sequence[int]
    text: str | None = None
    """None: the token ids are the prompt."""


class TokenPrompts:
    """Prompts of random token ids, special tokens excepted.

    Args:
        vocab_size: token ids run from 0 to this, exclusive.
        special_ids: never drawn: an end-of-sequence within a prompt means something to some models.

    Raises:
        ConfigError: no token is left to draw.
    """

    def __init__(self, vocab_size: int, special_ids: Collection[int] = ()) -> None:
        self._ids = [token for token in range(vocab_size) if token not in special_ids]
        if not self._ids:
            raise ConfigError(f"a vocabulary of {vocab_size} tokens has none to draw prompts from")

    def make(
        self, rng: random.Random, length: int, prefix: BenchPrompt | None = None
    ) -> BenchPrompt:
        """A prompt of ``length`` tokens, after those of ``prefix``."""
        head = () if prefix is None else prefix.token_ids
        return BenchPrompt((*head, *rng.choices(self._ids, k=length)))


class TextPrompts:
    """Prompts of random words, for servers that take text only.

    Each word is one token that begins with a blank, so that a word's token does not depend on its
    neighbours; every prompt is tokenised again to prove its length.

    Args:
        tokenizer: the server's.
        special_tokens: whether the server adds the tokenizer's special tokens, as it does to
            completions; then a prompt has as many words fewer.

    Raises:
        ConfigError: the tokenizer has too few tokens that are such words.
    """

    def __init__(self, tokenizer: Tokenizer, *, special_tokens: bool) -> None:
        self._tokenizer = tokenizer
        self._special_tokens = special_tokens
        self._added = len(tokenizer.encode("")) if special_tokens else 0
        self._words = _words(tokenizer)
        if len(self._words) < _FEWEST_WORDS:
            raise ConfigError(
                f"the tokenizer has {len(self._words)} tokens that are whole words, too few for "
                "random text"
            )

    def make(
        self, rng: random.Random, length: int, prefix: BenchPrompt | None = None
    ) -> BenchPrompt:
        """A prompt of ``length`` tokens, after those of ``prefix``.

        Raises:
            ConfigError: no text of that length can be made.
        """
        head = "" if prefix is None or prefix.text is None else prefix.text
        count = length - (self._added if prefix is None else 0)
        wanted = length + (0 if prefix is None else len(prefix.token_ids))
        if count >= 0:
            text = head + "".join(rng.choices(self._words, k=count))
            # Without its first blank for tokenizers that put one of their own there.
            for candidate in (text, text.removeprefix(" ")):
                ids = self._tokenizer.encode(candidate, add_special_tokens=self._special_tokens)
                if len(ids) == wanted:
                    return BenchPrompt(tuple(ids), candidate)
        raise ConfigError(f"no random text of {length} tokens can be made with this tokenizer")


def _words(tokenizer: Tokenizer) -> list[str]:
    """Texts of tokens: a blank and lower-case letters, each the same single token anywhere.

    Tokenizers that put a blank of their own before a text are asked behind a first word.
    """
    first = tokenizer.encode(" a", add_special_tokens=False)
    words: list[str] = []
    for token in range(tokenizer.vocab_size):
        if token in tokenizer.special_ids:
            continue
        word = " " + tokenizer.decode([token]).strip()
        if not (word[1:].isascii() and word[1:].isalpha() and word.islower()):
            continue
        if tokenizer.encode(f" a{word}", add_special_tokens=False) == [*first, token]:
            words.append(word)
            if len(words) == _POOL:
                break
    return words
