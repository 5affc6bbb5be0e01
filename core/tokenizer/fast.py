"""The tokenizer of the engine, over the ``tokenizers`` library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import tokenizers

from runtime.core.errors import RequestError
from runtime.core.tokenizer.chat_template import ChatTemplate
from runtime.core.tokenizer.vocabulary import vocabulary_bytes

DEFAULT_TEMPLATE = "default"
TOOL_TEMPLATE = "tool_use"


class FastTokenizer:
    """A ``tokenizers`` pipeline with the special tokens and chat templates of a model.

    ``special_tokens`` maps names as configs have them (``bos_token``, ``eos_token``, …) to
    tokens; chat templates see them under these names. ``chat_templates`` are by name, the usual
    one is ``default``. Truncation and padding that the pipeline has are switched off.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        special_tokens: Mapping[str, str],
        chat_templates: Mapping[str, str],
    ) -> None:
        backend.no_truncation()
        backend.no_padding()
        self.backend = backend
        self.special_tokens = dict(special_tokens)
        self.eos_token_id = self._special_id("eos_token")
        self.bos_token_id = self._special_id("bos_token")
        self.chat_template = chat_templates.get(DEFAULT_TEMPLATE)
        self._templates = {name: ChatTemplate(text) for name, text in chat_templates.items()}

    def _special_id(self, name: str) -> int | None:
        token = self.special_tokens.get(name)
        return None if token is None else self.backend.token_to_id(token)

    @cached_property
    def vocab_size(self) -> int:
        """Token ids run from 0 to this, exclusive."""
        added = max(self.backend.get_added_tokens_decoder(), default=-1)
        return max(self.backend.get_vocab_size(with_added_tokens=True), added + 1)

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids that ``skip_special_tokens`` leaves out of text."""
        added = self.backend.get_added_tokens_decoder()
        return frozenset(token_id for token_id, token in added.items() if token.special)

    @cached_property
    def byte_ids(self) -> frozenset[int]:
        """Ids of byte-fallback tokens; none where the decoder does not join them."""
        decoder = self.backend.decoder
        if decoder is None or b"ByteFallback" not in decoder.__getstate__():
            return frozenset()
        ids = (self.backend.token_to_id(f"<0x{byte:02X}>") for byte in range(256))
        return frozenset(token_id for token_id in ids if token_id is not None)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text.

        Raises:
            RequestError: the text has half of a surrogate pair, which no encoding can hold.
        """
        _check_surrogates(text)
        ids: list[int] = self.backend.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def encode_truncated(self, text: str, max_tokens: int) -> list[int]:
        """Token ids of as much of a text's beginning as ``max_tokens`` hold with special tokens.

        Raises:
            RequestError: as :meth:`encode`.
        """
        _check_surrogates(text)
        encoding = self.backend.encode(text, add_special_tokens=False)
        special = self.backend.num_special_tokens_to_add(False)
        # Not the pipeline's own truncation: that is a setting, and others encode meanwhile.
        encoding.truncate(max(0, max_tokens - special))
        ids: list[int] = self.backend.post_process(encoding, add_special_tokens=True).ids
        return ids[:max_tokens]

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of token ids; ids outside the vocabulary have none.

        Incomplete UTF-8 becomes U+FFFD.
        """
        text: str = self.backend.decode(list(token_ids), skip_special_tokens=skip_special_tokens)
        return text

    @cached_property
    def _anchor(self) -> list[int]:
        """A token with text, for what comes first in a text may lose its blank."""
        return self.encode("a", add_special_tokens=False)[-1:]

    def token_text(self, token_id: int) -> str:
        """The token by itself, as it reads within a text."""
        before = self.decode(self._anchor, skip_special_tokens=False)
        text = self.decode([*self._anchor, token_id], skip_special_tokens=False)
        return text.removeprefix(before)

    def token_bytes(self) -> list[bytes]:
        """The bytes of each token as it stands in a text; empty for special tokens.

        Raises:
            RequestError: the pipeline's decoder is neither byte-level nor SentencePiece's.
        """
        try:
            return vocabulary_bytes(self.backend, self.vocab_size)
        except ValueError as error:
            raise RequestError(
                f"the bytes of the tokenizer's tokens are unknown: {error}"
            ) from None

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        chat_template: str | None = None,
        continue_final_message: bool = False,
        **variables: Any,
    ) -> str:
        """The prompt text of a conversation.

        ``chat_template`` is a template, or the name of one of the model's. Without it the model's
        own serves, with ``tools`` the one for tools where there is one.

        Raises:
            RequestError: no template, or the template refuses the conversation.
        """
        template = self._choose(chat_template, bool(variables.get("tools")))
        variables.setdefault("tools", None)
        variables.setdefault("documents", None)
        return template.render(
            messages,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            **{**self.special_tokens, **variables},
        )

    def _choose(self, asked: str | None, tools: bool) -> ChatTemplate:
        if asked is not None:
            return self._templates.get(asked) or ChatTemplate(asked)
        for name in (TOOL_TEMPLATE, DEFAULT_TEMPLATE) if tools else (DEFAULT_TEMPLATE,):
            if name in self._templates:
                return self._templates[name]
        if self._templates:
            raise RequestError(
                "the model has several chat templates and no default: name one with "
                f"--chat-template ({', '.join(sorted(self._templates))})"
            )
        raise RequestError(
            "the model has no chat template: set one with --chat-template, or send a plain "
            "prompt instead of messages"
        )


def _check_surrogates(text: str) -> None:
    """Refuse half of a surrogate pair."""
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise RequestError("the text has an unpaired surrogate (U+D800 to U+DFFF)", "prompt")
