"""Asking the system for what a checkpoint's next tensors take, while earlier ones are copied."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from runtime.core.loader.weights import LazyWeight

AHEAD_BYTES = 512 << 20
"""How far the disk reads ahead of the copies."""


def read_ahead(
    weights: Iterable[tuple[str, LazyWeight]], ahead: int = AHEAD_BYTES
) -> Iterator[tuple[str, LazyWeight]]:
    """The same weights; those within ``ahead`` bytes of one are on their way when it is given.

    Only a hint: the system reads on its own time, or not at all where it knows no such hint.
    """
    every = list(weights)
    asked, distance = 0, 0
    for index, item in enumerate(every):
        while asked < len(every) and (asked <= index or distance < ahead):
            distance += _ask_for(every[asked][1])
            asked += 1
        yield item
        place = item[1].place
        distance -= place.length if place is not None else 0


def _ask_for(weight: LazyWeight) -> int:
    """Returns the bytes that were asked for."""
    place = weight.place
    if place is None:
        return 0
    _advise(place.path, place.start, place.length)
    return place.length


def _advise(path: Path, start: int, length: int) -> None:
    if not hasattr(os, "posix_fadvise"):
        return
    # A hint that fails is none: whoever reads the file says what is wrong with it.
    with suppress(OSError), path.open("rb") as file:
        os.posix_fadvise(file.fileno(), start, length, os.POSIX_FADV_WILLNEED)
