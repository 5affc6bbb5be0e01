"""What the plugin interface is about to lose, and has lost.

An entry is added when a hook or an attribute is deprecated, and stays when it has been removed:
until then a plugin that uses it is warned of, from then on refused, each time with the remedy.
``removed_in`` is later than ``since``, so that at least one minor release warns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Version = tuple[int, int]
"""Major and minor version of the plugin API."""


@dataclass(frozen=True)
class Deprecation:
    """One name that plugins may use no longer."""

    what: str
    """A hook (``runtime_…``) or an attribute that a plugin sets."""
    since: Version
    """First version that warns."""
    removed_in: Version
    """First version without it."""
    instead: str
    """The remedy, as a clause: ``implement runtime_platform``."""

    def __post_init__(self) -> None:
        """Refuse a removal that no release has warned of."""
        if self.removed_in <= self.since:
            raise ValueError(f"{self.what}: removed in {self.removed_in}, warned of {self.since}")

    def warning(self) -> str:
        """What is said of a plugin that uses it while it still works."""
        since, end = version_text(self.since), version_text(self.removed_in)
        return (
            f"uses {self.what}, deprecated since plugin API {since} and removed in {end}: "
            f"{self.instead}"
        )

    def refusal(self) -> str:
        """What is said of a plugin that uses it when it is gone."""
        end = version_text(self.removed_in)
        return f"uses {self.what}, removed in plugin API {end}: {self.instead}"


DEPRECATIONS: tuple[Deprecation, ...] = ()
"""All of them; none yet."""


def deprecated(
    names: Iterable[str], version: Version, table: Iterable[Deprecation]
) -> list[Deprecation]:
    """Entries for the names that a plugin uses, of those that ``version`` warns of or lacks."""
    used = set(names)
    return [entry for entry in table if entry.what in used and entry.since <= version]


def version_text(version: Version) -> str:
    """``major.minor``."""
    return ".".join(map(str, version))
