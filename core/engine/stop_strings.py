"""Finding stop strings in text that grows, without showing what may become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StopMatch:
    """A stop string that was found."""

    stop: str
    end: int
    """Characters of the text that stay."""


def find_stop(
    text: str, new_chars: int, stops: Sequence[str], *, include: bool
) -> StopMatch | None:
    """The first stop string that ends within the last ``new_chars`` characters of ``text``.

    Where several end there, the one that begins first wins; ``include`` keeps it in the text.
    """
    best: tuple[int, str] | None = None
    for stop in stops:
        start = text.find(stop, max(0, len(text) - new_chars - len(stop) + 1))
        if start >= 0 and (best is None or start < best[0]):
            best = start, stop
    if best is None:
        return None
    start, stop = best
    return StopMatch(stop, start + len(stop) if include else start)


def held_back(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end of ``text`` may be the beginning of a stop string."""
    most = max((len(stop) for stop in stops), default=1) - 1
    for length in range(min(most, len(text)), 0, -1):
        tail = text[-length:]
        if any(stop.startswith(tail) for stop in stops):
            return length
    return 0
