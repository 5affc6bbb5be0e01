"""What a request may ask of pooling, checked when it is made."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from runtime.core.errors import RequestError


class PoolingType(StrEnum):
    """Which hidden states a prompt's embedding is made of."""

    MEAN = "MEAN"
    """The mean over all tokens, special ones too."""
    CLS = "CLS"
    """The first token's."""
    LAST = "LAST"
    """The last token's."""
    ALL = "ALL"
    """One embedding for each token."""


class PoolingTask(StrEnum):
    """What a request wants."""

    EMBED = "embed"
    """One vector for the prompt."""
    TOKEN_EMBED = "token_embed"
    """One vector for each token."""


class Pooling(msgspec.Struct, frozen=True):
    """How one request's hidden states become its result: nothing is left open."""

    type: PoolingType
    normalize: bool
    """Whether vectors are brought to length 1."""
    dimensions: int | None = None
    """Leading elements that are kept, before they are normalised; None is all."""

    @property
    def reads_all_positions(self) -> bool:
        """Whether every token must be computed: a cached prefix has keys and values alone."""
        return self.type is not PoolingType.LAST


class Vectors(msgspec.Struct, frozen=True, array_like=True):
    """Numbers on their way between processes."""

    shape: list[int]
    """[hidden size], or [tokens, hidden size]."""
    data: bytes
    """float32, little-endian, row by row."""


class PoolingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the embedding of one prompt is made.

    Raises:
        RequestError: a value is out of range; ``param`` names it.
    """

    task: PoolingTask = PoolingTask.EMBED
    dimensions: int | None = None
    """Elements of the embedding, where the model was trained so that it may be cut."""
    normalize: bool | None = None
    """Whether vectors are brought to length 1; None is as the model says."""
    truncate_prompt_tokens: int | None = None
    """Keep this many first tokens of the prompt; -1 is what the model takes."""
    priority: int = 0
    """Lower is served first, where the scheduling policy is ``priority``."""

    def __post_init__(self) -> None:
        """Check every field."""
        try:
            task = PoolingTask(self.task)
        except ValueError:
            choices = ", ".join(PoolingTask)
            raise _error("task", self.task, f"must be one of {choices}") from None
        msgspec.structs.force_setattr(self, "task", task)
        if self.dimensions is not None:
            _check_integer("dimensions", self.dimensions, 1, 2**31 - 1)
        if self.truncate_prompt_tokens is not None:
            _check_integer("truncate_prompt_tokens", self.truncate_prompt_tokens, -1, 2**31 - 1)
            if self.truncate_prompt_tokens == 0:
                raise _error("truncate_prompt_tokens", 0, "must be at least 1, or -1")
        _check_integer("priority", self.priority, -(2**31), 2**31 - 1)
        flag: object = self.normalize
        if flag is not None and not isinstance(flag, bool):
            raise _error("normalize", flag, "must be true or false")


def _check_integer(name: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _error(name, value, "must be an integer")
    if not least <= value <= most:
        raise _error(name, value, f"must be from {least} to {most}")


def _error(name: str, value: object, rule: str) -> RequestError:
    return RequestError(f"{name}={value!r}: {rule}", name)
