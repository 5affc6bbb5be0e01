"""Log-probabilities in the forms that clients expect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.core.engine.outputs import Logprob, PositionLogprobs
from runtime.core.entrypoints.server.protocol.chat import (
    ChatLogprobs,
    ChosenLogprob,
    TokenLogprob,
)
from runtime.core.entrypoints.server.protocol.completion import CompletionLogprobs
from runtime.core.tokenizer.detokenizer import IncrementalDetokenizer
from runtime.core.tokenizer.interface import Tokenizer


class CompletionLogprobsWriter:
    """Writes one output's log-probabilities as ``/v1/completions`` has them, while it grows.

    The tokens' texts, put together, are the output's text: a character of several tokens is the
    last one's.
    """

    def __init__(self, tokenizer: Tokenizer | None, count: int, *, skip_special: bool) -> None:
        """``count`` is how many most likely tokens are told."""
        self._tokenizer = tokenizer
        self._count = count
        self._skip = skip_special
        self._offset = 0
        self._detokenizer = self._begin([])

    def _begin(self, before: Sequence[int]) -> IncrementalDetokenizer | None:
        if self._tokenizer is None:
            return None
        return IncrementalDetokenizer(self._tokenizer, before, skip_special_tokens=self._skip)

    def start_behind(self, prompt_token_ids: Sequence[int]) -> None:
        """The output follows a prompt that is not told."""
        self._detokenizer = self._begin(prompt_token_ids)

    def write(
        self,
        token_ids: Sequence[int],
        positions: Sequence[PositionLogprobs | None],
        *,
        finished: bool,
    ) -> CompletionLogprobs:
        """New tokens; ``finished`` says that they are the last."""
        texts = [self._text(token_id) for token_id in token_ids]
        if finished and texts and self._detokenizer is not None:
            texts[-1] += self._detokenizer.finish()
        offsets = []
        for text in texts:
            offsets.append(self._offset)
            self._offset += len(text)
        chosen = [
            None if position is None else position[token_id].logprob
            for token_id, position in zip(token_ids, positions, strict=True)
        ]
        return CompletionLogprobs(
            text_offset=offsets,
            token_logprobs=chosen,
            tokens=texts,
            top_logprobs=[self._top(position) for position in positions],
        )

    def _text(self, token_id: int) -> str:
        return "" if self._detokenizer is None else self._detokenizer.append([token_id])

    def _top(self, position: PositionLogprobs | None) -> dict[str, float] | None:
        if position is None:
            return None
        top: dict[str, float] = {}
        for index, (token_id, entry) in enumerate(position.items()):
            # The chosen token is the first entry, besides the most likely ones.
            if index == 0 or entry.rank <= self._count:
                text = entry.decoded_token
                top.setdefault(f"token_id:{token_id}" if text is None else text, entry.logprob)
        return top


def chat_logprobs(
    token_ids: Sequence[int], positions: Sequence[PositionLogprobs], count: int
) -> ChatLogprobs:
    """As ``/v1/chat/completions`` has them; ``count`` most likely tokens at each position."""
    content = []
    for token_id, position in zip(token_ids, positions, strict=True):
        ranked = sorted(position.items(), key=lambda item: item[1].rank)
        content.append(
            ChosenLogprob(
                **_token(token_id, position[token_id]),
                top_logprobs=[
                    TokenLogprob(**_token(other, entry))
                    for other, entry in ranked[:count]
                    if entry.rank <= count
                ],
            )
        )
    return ChatLogprobs(content=content)


def _token(token_id: int, entry: Logprob) -> dict[str, Any]:
    text = f"token_id:{token_id}" if entry.decoded_token is None else entry.decoded_token
    data = text.encode("utf-8", "replace")
    return {"token": text, "logprob": entry.logprob, "bytes": list(data)}


def prompt_logprobs(
    positions: Sequence[PositionLogprobs | None] | None,
) -> list[dict[str, dict[str, Any]] | None] | None:
    """By token id, at each position of the prompt."""
    if positions is None:
        return None
    return [
        None
        if position is None
        else {
            str(token_id): {
                "logprob": entry.logprob,
                "rank": entry.rank,
                "decoded_token": entry.decoded_token,
            }
            for token_id, entry in position.items()
        }
        for position in positions
    ]
