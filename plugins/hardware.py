"""Hardware that a plugin has seen on this machine, whether or not anything here can use it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hardware:
    """A device that is present, and the platform that would serve it."""

    kind: str
    """What a platform that serves it lists in its ``serves``: ``acme-card``."""
    name: str
    """In words, with an article: ``an Acme card``."""
    evidence: str
    """Where it was seen: a path."""
    platform: str
    """Name of the platform that would serve it."""
    remedy: str
    """What to do where that platform is missing: ``install acme-runtime``."""

    def __str__(self) -> str:
        """One line for users."""
        return (
            f"found {self.name} ({self.evidence}) that no installed platform serves; {self.remedy}"
        )
