"""Text of an output while it grows, token by token."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.tokenizer.interface import Tokenizer

REPLACEMENT = "\ufffd"
CONTEXT_TOKENS = 6
"""Tokens with text that are decoded again before the new ones.

One would do for what the start of a text loses (a blank). The rest are for byte-level
vocabularies: cut inside a character, at most three bytes are misread before the text is in step.
"""
MAX_WINDOW = 24
"""Tokens that are decoded at once before the oldest are dropped."""


class IncrementalDetokenizer:
    """Turns token ids into text piece by piece.

    The pieces of :meth:`append` and :meth:`finish` together are what ``tokenizer.decode`` gives of
    all output ids where they follow the prompt; no character is given twice, and none is given
    before it is sure. Held back are the bytes of an incomplete character and, where a vocabulary
    has byte-fallback tokens, a run of these until it ends: their decoder takes back a whole run
    when its last byte turns out to be wrong.

    Only the last tokens are decoded again for each token, so the cost of one does not grow with
    the text.

    ``spaces_between_special_tokens`` has no effect, as in transformers for tokenizers of this
    kind: the text of special tokens is theirs alone.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt_token_ids: Sequence[int],
        *,
        skip_special_tokens: bool = True,
        spaces_between_special_tokens: bool = True,
    ) -> None:
        del spaces_between_special_tokens
        self._tokenizer = tokenizer
        self._skip = skip_special_tokens
        self._byte_ids = tokenizer.byte_ids
        self._special_ids = tokenizer.special_ids
        self._vocab_size = tokenizer.vocab_size
        self._pieces: list[str] = []
        self._window: list[int] = self._tail(prompt_token_ids)
        """The tokens that are decoded, from some before the first that is not given in full."""
        self._prompt_text = self._decode()
        """Text of the prompt in the window."""
        self._given = len(self._prompt_text) - self._unsure(self._prompt_text)
        """Characters of the window's text that are the prompt's, or were given."""
        self._in_prompt = True

    @property
    def text(self) -> str:
        """All text given so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def append(self, token_ids: Sequence[int]) -> str:
        """Take in output tokens; returns the text that became sure."""
        return "".join([self._append(token_id) for token_id in token_ids])

    def finish(self) -> str:
        """The text that was held back, as ``decode`` gives it at the end of all tokens."""
        text = self._decode()
        return self._give(text, len(text))

    def _append(self, token_id: int) -> str:
        if not self._visible(token_id):
            return ""
        self._window.append(token_id)
        if token_id in self._byte_ids:
            return ""
        text = self._decode()
        piece = self._give(text, len(text) - self._unsure(text))
        if len(self._window) > MAX_WINDOW:
            pending = len(text) - self._given
            self._window = self._tail(self._window)
            self._given = len(self._decode()) - pending
        return piece

    def _give(self, text: str, stop: int) -> str:
        if stop > self._given and self._in_prompt:
            # The first text beyond the prompt's. Where that ended in an incomplete character,
            # the output either completed it or left it as the prompt shows it.
            self._in_prompt = False
            if text[:stop].startswith(self._prompt_text):
                self._given = len(self._prompt_text)
        if stop <= self._given:
            return ""
        piece = text[self._given : stop]
        self._given = stop
        self._pieces.append(piece)
        return piece

    def _unsure(self, text: str) -> int:
        """Characters at the end of the window's text that the next token may change."""
        if not self._byte_ids:
            # Of several replacement characters only the last can be an incomplete sequence.
            return 1 if text.endswith(REPLACEMENT) else 0
        run = len(self._window)
        while run and self._window[run - 1] in self._byte_ids:
            run -= 1
        if run == len(self._window):
            return 0
        before = self._tokenizer.decode(self._window[:run], skip_special_tokens=self._skip)
        return len(text) - len(before)

    def _tail(self, token_ids: Sequence[int]) -> list[int]:
        """The last tokens that have a part in the text, and not from within a run of bytes."""
        tail: list[int] = []
        for token_id in reversed(token_ids):
            if self._visible(token_id):
                tail.append(token_id)
                if len(tail) >= CONTEXT_TOKENS and token_id not in self._byte_ids:
                    break
        return tail[::-1]

    def _visible(self, token_id: int) -> bool:
        """Whether the token takes part in the text."""
        if self._skip and token_id in self._special_ids:
            return False
        return 0 <= token_id < self._vocab_size

    def _decode(self) -> str:
        return self._tokenizer.decode(self._window, skip_special_tokens=self._skip)
