"""Where one request's output is in its constraint, and which tokens may come next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from runtime.core.structured_output.interface import Matcher


class ConstraintError(Exception):
    """A request cannot go on; the message says why."""


def grammar_failure(error: BaseException) -> str:
    """What a client is told of an error that ends its request."""
    if isinstance(error, ConstraintError):
        return str(error)
    return f"structured output failed: {type(error).__name__}: {error!s:.300}"


@dataclass(frozen=True)
class OtherLimits:
    """What else restricts the next token."""

    allowed: Sequence[int] | None = None
    """If given, only these may be chosen."""
    forbidden: Sequence[int] = ()
    """These may never be chosen."""
    avoided: Sequence[int] = ()
    """These may be chosen only where nothing else may."""


class GrammarProgress:
    """A matcher and how many tokens of the output it has seen.

    It is made anew when a request comes back from preemption, and then sees all of the output.
    """

    def __init__(self, matcher: Matcher, eos_token_ids: Sequence[int]) -> None:
        self._matcher = matcher
        self.eos_token_ids = eos_token_ids
        self._seen = 0

    def next_tokens(
        self, output: npt.NDArray[np.int32], mask: npt.NDArray[np.int32], limits: OtherLimits
    ) -> bool:
        """Write the tokens that may follow ``output`` [n], all the tokens of output so far.

        mask [words] int32 has one bit a token, as in :class:`Matcher`. False, and nothing is
        written, where the output has ended.

        Raises:
            ConstraintError: no token may follow, or the output breaks the constraint.
        """
        for token_id in output[self._seen :].tolist():
            if self._matcher.ended:
                break
            if not self._matcher.accept(token_id):
                raise ConstraintError(
                    f"structured output failed: the grammar does not allow token {token_id} at "
                    f"position {self._seen} of the output"
                )
            self._seen += 1
        if self._matcher.ended:
            return False
        self._matcher.fill(mask)
        self._apply(mask, limits)
        return True

    def _apply(self, mask: npt.NDArray[np.int32], limits: OtherLimits) -> None:
        if not mask.any():
            raise ConstraintError("structured output failed: the grammar allows no token here")
        words = len(mask)
        rest = mask & ~bits_of(limits.forbidden, words)
        if limits.allowed is not None:
            rest &= bits_of(limits.allowed, words)
        if not rest.any():
            # What is complete may end, whatever the others say.
            rest = mask & bits_of(self.eos_token_ids, words)
        if not rest.any():
            raise ConstraintError(
                "structured_outputs contradicts allowed_token_ids or bad_words: they leave no "
                "token to choose"
            )
        preferred = rest & ~bits_of(limits.avoided, words)
        mask[:] = preferred if preferred.any() else rest


def bits_of(token_ids: Sequence[int], words: int) -> npt.NDArray[np.int32]:
    """A mask of ``words`` int32 with the bits of those tokens."""
    mask = np.zeros(words, dtype=np.uint32)
    ids = np.asarray(token_ids, dtype=np.int64)
    np.bitwise_or.at(mask, ids // 32, np.uint32(1) << (ids % 32).astype(np.uint32))
    return mask.view(np.int32)
