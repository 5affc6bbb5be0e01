"""One plugin, and what has become of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import EntryPoint
from typing import Any

from runtime.plugins.errors import PluginError
from runtime.plugins.loading import LoadedPlugin

OWN_DISTRIBUTION = "runtime"


class PluginState(StrEnum):
    """What has become of a plugin."""

    FOUND = "found"
    """Installed and wanted, not yet called."""
    FILTERED = "filtered"
    """Left out by VLLM_PLUGINS: it is never imported."""
    FAILED = "failed"
    """It could not be loaded, or raised."""
    LOADED = "loaded"


@dataclass
class PluginRecord:
    """One plugin."""

    group: str
    name: str
    distribution: str
    version: str
    value: str
    """``package.module:attribute``."""
    built_in: bool
    named: bool
    """Whether VLLM_PLUGINS names it."""
    entry_point: EntryPoint
    state: PluginState = PluginState.FOUND
    reason: str = ""
    load_seconds: float = 0.0
    """Spent on importing, calling and probing it."""
    error: BaseException | None = None
    loaded: LoadedPlugin | None = None
    """What importing it gave."""
    result: Any = None
    """What its function returned."""
    probed: Any = None
    """What the core has made of the result, kept so that it asks once a process."""

    @property
    def origin(self) -> str:
        """The distribution that brings it, with its version."""
        return f"{self.distribution} {self.version}"


def record_of(point: EntryPoint, wanted: tuple[str, ...] | None) -> PluginRecord:
    """A plugin that was found and not yet looked at.

    A distribution whose metadata is damaged is ``unknown`` in version ``?``.
    """
    distribution = _metadata(point, "name") or "unknown"
    return PluginRecord(
        group=point.group,
        name=point.name,
        distribution=distribution,
        version=_metadata(point, "version") or "?",
        value=point.value,
        built_in=distribution == OWN_DISTRIBUTION,
        named=point.name in (wanted or ()),
        entry_point=point,
    )


def _metadata(point: EntryPoint, field: str) -> str | None:
    """The distribution's name or version; None where its metadata is missing or unreadable."""
    try:
        value = getattr(point.dist, field, None)
    except Exception:
        # Pythons differ in what they raise for a folder without METADATA.
        return None
    return value if isinstance(value, str) else None


def describe(error: BaseException) -> str:
    """An exception in one line, with the one that caused it."""
    text = str(error) if isinstance(error, PluginError) else one_line(error)
    cause = error.__cause__
    return text if cause is None else f"{text} (caused by {one_line(cause)})"


def one_line(error: BaseException) -> str:
    """An exception's type and message, whatever line breaks the message has."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def failure_text(record: PluginRecord) -> str:
    """One line that names a failed plugin and says why."""
    return f"plugin {record.name!r} of {record.origin} failed: {record.reason}"
