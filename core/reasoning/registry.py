"""Reasoning parsers by name: the built-in ones, and those that plugins bring."""

from __future__ import annotations

from runtime.core.class_registry import ClassRegistry
from runtime.core.reasoning.interface import ReasoningParser

_MODULE = "runtime.core.reasoning.think_tags"

REASONING_PARSERS: ClassRegistry[ReasoningParser] = ClassRegistry(
    "reasoning parser",
    ReasoningParser,
    {
        "deepseek_r1": f"{_MODULE}:DeepseekR1ReasoningParser",
        "qwen3": f"{_MODULE}:Qwen3ReasoningParser",
    },
)


def register_reasoning_parser(name: str, parser: str) -> None:
    """Make the class ``package.module:Class`` known under a name; re-entrant.

    For a general plugin's ``register()``. The class is imported when it is first used.

    Raises:
        ValueError: the class is not named that way, or another class has the name.
    """
    REASONING_PARSERS.register(name, parser)
