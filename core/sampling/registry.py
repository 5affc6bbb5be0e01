"""Logits processors that plugins bring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.core.errors import RequestError

if TYPE_CHECKING:
    from runtime.core.sampling.processors import LogitsProcessor


class _Registry:
    """Classes by name, in the order of registration."""

    def __init__(self) -> None:
        self.classes: dict[str, type[LogitsProcessor]] = {}


_REGISTRY = _Registry()


def register_logits_processor(cls: type[LogitsProcessor]) -> type[LogitsProcessor]:
    """Make a processor known under ``cls.name``; usable as a decorator, and re-entrant.

    It runs in engines built from then on, after the built-in ones, in each step in which any
    request has parameters that change logits. A request names it in
    ``SamplingParams.logits_processors`` and passes arguments in ``extra_args``.

    Raises:
        ValueError: another class has the name.
    """
    known = _REGISTRY.classes.setdefault(cls.name, cls)
    if known is not cls:
        raise ValueError(
            f"logits processor {cls.name!r} is registered twice: "
            f"{known.__module__}.{known.__qualname__} and {cls.__module__}.{cls.__qualname__}"
        )
    return cls


def registered_processors() -> tuple[type[LogitsProcessor], ...]:
    """All processors that plugins brought."""
    return tuple(_REGISTRY.classes.values())


def check_processor_names(names: tuple[str, ...]) -> None:
    """Refuse a request that names an unknown processor."""
    for name in names:
        if name not in _REGISTRY.classes:
            known = ", ".join(sorted(_REGISTRY.classes)) or "none"
            raise RequestError(
                f"logits_processors: {name!r} is not registered (known: {known})",
                "logits_processors",
            )
