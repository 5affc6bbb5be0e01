"""A model's ``config.json`` as an immutable mapping with attribute access."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any


class HFConfig(Mapping[str, Any]):
    """A checkpoint's configuration under the names that transformers uses.

    ``config.hidden_size`` and ``config["hidden_size"]`` are the same; ``config.get(name, default)``
    treats a null as absent. Values are what JSON gave: nothing is defaulted here.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_values", copy.deepcopy(dict(values)))

    def __getitem__(self, key: str) -> Any:
        """The value of a key, KeyError where absent."""
        return self._values[key]

    def __getattr__(self, name: str) -> Any:
        """The value of a key, AttributeError naming it where absent."""
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"the model's config has no {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        """Refused: a config is never written after it was read."""
        raise AttributeError(f"the model's config is read-only: cannot set {name!r}")

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys."""
        return iter(self._values)

    def __len__(self) -> int:
        """Count the keys."""
        return len(self._values)

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or ``default`` where the key is absent or null."""
        value = self._values.get(key)
        return default if value is None else value

    def replace(self, **changes: Any) -> HFConfig:
        """A copy with some values changed."""
        return HFConfig({**self._values, **changes})

    def __reduce__(self) -> tuple[type[HFConfig], tuple[dict[str, Any]]]:
        """Pickle by value."""
        return HFConfig, (self._values,)

    def __repr__(self) -> str:
        """The keys and values."""
        return f"HFConfig({self._values!r})"
