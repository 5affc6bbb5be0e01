"""Tool parsers by name: the built-in ones, and those that plugins bring."""

from __future__ import annotations

from runtime.core.class_registry import ClassRegistry
from runtime.core.tool_parsers.interface import ToolParser

_PACKAGE = "runtime.core.tool_parsers"

TOOL_PARSERS: ClassRegistry[ToolParser] = ClassRegistry(
    "tool parser",
    ToolParser,
    {
        "hermes": f"{_PACKAGE}.hermes:HermesToolParser",
        "llama3_json": f"{_PACKAGE}.json_sequence:Llama3JsonToolParser",
        "mistral": f"{_PACKAGE}.mistral:MistralToolParser",
        "qwen3_coder": f"{_PACKAGE}.qwen3_coder:Qwen3CoderToolParser",
    },
)


def register_tool_parser(name: str, parser: str) -> None:
    """Make the class ``package.module:Class`` known under a name; re-entrant.

    For a general plugin's ``register()``. The class is imported when it is first used.

    Raises:
        ValueError: the class is not named that way, or another class has the name.
    """
    TOOL_PARSERS.register(name, parser)
