"""Names of classes that plugins may add to, imported when they are needed."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import Generic, TypeVar, cast

from runtime.core.errors import ConfigError

T = TypeVar("T")


class ClassRegistry(Generic[T]):
    """Classes of one kind by name, as ``package.module:Class``."""

    def __init__(self, kind: str, base: type, built_in: Mapping[str, str]) -> None:
        """``kind`` is what messages call them: ``tool parser``. ``base`` may be abstract."""
        self._kind = kind
        self._base = base
        self._classes = dict(built_in)

    def register(self, name: str, qualified: str) -> None:
        """Make a class known under a name; re-entrant.

        Raises:
            ValueError: the class is not named ``package.module:Class``, or another has the name.
        """
        module, _, attribute = qualified.partition(":")
        if not module or not attribute:
            raise ValueError(f"{self._kind} {qualified!r} must be 'package.module:Class'")
        known = self._classes.setdefault(name, qualified)
        if known != qualified:
            raise ValueError(f"{self._kind} {name!r} is registered twice: {known} and {qualified}")

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._classes)

    def load(self, name: str) -> type[T]:
        """The class of a name.

        Raises:
            ConfigError: there is none (lists those that there are), or it cannot be imported.
        """
        qualified = self._classes.get(name)
        if qualified is None:
            known = ", ".join(self.names())
            raise ConfigError(f"{self._kind} {name!r} is not registered (known: {known})")
        try:
            found = pkgutil.resolve_name(qualified)
        except Exception as error:  # a plugin's module may raise anything
            raise ConfigError(
                f"{self._kind} {name!r}: {qualified} cannot be imported: "
                f"{type(error).__name__}: {error}"
            ) from error
        if not (isinstance(found, type) and issubclass(found, self._base)):
            raise ConfigError(f"{self._kind} {name!r}: {qualified} is no {self._base.__name__}")
        return cast("type[T]", found)
