"""Backends of structured output by name: the built-in one, and those that plugins bring."""

from __future__ import annotations

import pkgutil

from runtime.core.errors import ConfigError
from runtime.core.structured_output.interface import StructuredOutputBackend

AUTO = "auto"
_BUILT_IN = ("xgrammar", "runtime.core.structured_output.xgrammar_backend:XGrammarBackend")


class _Registry:
    """Qualified class names by backend name."""

    def __init__(self) -> None:
        self.names: dict[str, str] = dict((_BUILT_IN,))


_REGISTRY = _Registry()


def register_structured_output_backend(name: str, backend: str) -> None:
    """Make the class ``package.module:Class`` known under a name; re-entrant.

    It is imported when the first request needs it. An engine uses it where
    ``structured_outputs_backend`` names it.

    Raises:
        ValueError: the class name is not of that form, or another class has the name.
    """
    module, _, qualified = backend.partition(":")
    if not module or not qualified:
        raise ValueError(f"backend class {backend!r} must be 'package.module:Class'")
    known = _REGISTRY.names.setdefault(name, backend)
    if known != backend or name == AUTO:
        raise ValueError(f"structured output backend {name!r} is registered twice: {known}")


def backend_names() -> list[str]:
    """Names of all backends, sorted."""
    return sorted(_REGISTRY.names)


def qualified_name(name: str) -> str:
    """The class of a backend, as ``package.module:Class``; ``auto`` is the built-in one.

    Raises:
        ConfigError: there is no such backend; lists those that there are.
    """
    wanted = _BUILT_IN[0] if name == AUTO else name
    if wanted not in _REGISTRY.names:
        raise ConfigError(
            f"structured_outputs_backend={name!r} is not registered "
            f"(known: {AUTO}, {', '.join(backend_names())})"
        )
    return _REGISTRY.names[wanted]


def load_backend(qualified: str) -> type[StructuredOutputBackend]:
    """Import a backend's class.

    Raises:
        ConfigError: it cannot be imported, or is no backend.
    """
    try:
        found = pkgutil.resolve_name(qualified)
    except Exception as error:  # a plugin's module may raise anything
        raise ConfigError(
            f"structured output backend {qualified!r} cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, StructuredOutputBackend)):
        raise ConfigError(f"{qualified} is not a StructuredOutputBackend")
    return found
