"""The version of this distribution, without importing anything heavy."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def own_version() -> str:
    """The installed version; ``unknown`` when run from files that were never installed."""
    try:
        return version("runtime")
    except PackageNotFoundError:
        return "unknown"
