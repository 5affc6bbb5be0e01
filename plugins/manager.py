"""Which plugins are installed, which are wanted, and what became of each."""

from __future__ import annotations

import functools
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from runtime.plugins.errors import PluginError
from runtime.plugins.hookspecs import GENERAL_GROUP, PLATFORM_GROUP
from runtime.plugins.loading import load_plugin

logger = logging.getLogger(__name__)

OWN_DISTRIBUTION = "runtime"
FILTER_VARIABLE = "VLLM_PLUGINS"
PLUGIN_FAILURES = (Exception, SystemExit)
"""What a plugin's code may raise without ending the process: an exit is its failure too."""


class PluginState(StrEnum):
    """What has become of a plugin."""

    FOUND = "found"
    """Installed and wanted, not yet looked at."""
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
    error: BaseException | None = None
    result: Any = None
    """What its function returned."""

    @property
    def origin(self) -> str:
        """The distribution that brings it, with its version."""
        return f"{self.distribution} {self.version}"


@dataclass
class PluginManager:
    """Finds plugins and calls each at most once.

    Platform plugins go before general ones, each by name; ``environ`` is read when the manager is
    made.
    """

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    found: Iterable[EntryPoint] | None = None
    """Entry points to consider; None: those that are installed."""
    records: list[PluginRecord] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        """Find and filter, importing nothing."""
        found = self.found
        if found is None:
            groups = (PLATFORM_GROUP, GENERAL_GROUP)
            found = [point for group in groups for point in entry_points(group=group)]
        self.wanted = parse_filter(self.environ)
        self.records = [self._record(point) for point in sorted(found, key=_order)]
        self._apply_filter()
        self._refuse_duplicates()

    def platforms(self) -> list[PluginRecord]:
        """All platform plugins, whatever their state."""
        return [record for record in self.records if record.group == PLATFORM_GROUP]

    def general(self) -> list[PluginRecord]:
        """All general plugins, whatever their state."""
        return [record for record in self.records if record.group == GENERAL_GROUP]

    def load(self, record: PluginRecord, *, asked: bool = False) -> Any:
        """Call a plugin, if that has not been done, and return what it returned.

        ``asked`` says that the user named it for this call, by whatever way.

        Raises:
            PluginError: it failed, now or before, and the user or VLLM_PLUGINS names it. A plugin
                that was merely found is logged as a warning instead, and gives None.
        """
        if record.state is PluginState.FOUND:
            self._call(record, asked)
        if record.state is PluginState.FAILED and (asked or record.named):
            raise PluginError(failure_text(record)) from record.error
        return record.result

    def load_general(self) -> None:
        """Call every wanted general plugin, if that has not been done.

        Raises:
            PluginError: one that VLLM_PLUGINS names is not installed or failed; so does every
                later call.
        """
        self.check_names()
        for record in self.general():
            self.load(record)

    def check_names(self) -> None:
        """Refuse a name in VLLM_PLUGINS that no plugin has, and named plugins that clash.

        Raises:
            PluginError: lists what is installed.
        """
        names = {record.name for record in self.records}
        unknown = [name for name in self.wanted or () if name not in names]
        if unknown:
            installed = ", ".join(sorted(names)) or "none"
            raise PluginError(
                f"{FILTER_VARIABLE} names {unknown[0]!r}, which no installed plugin has "
                f"(installed: {installed})"
            )
        for record in self.records:
            if record.named and record.state is PluginState.FAILED:
                raise PluginError(failure_text(record)) from record.error

    def fail(
        self,
        record: PluginRecord,
        reason: str,
        error: BaseException | None = None,
        *,
        asked: bool = False,
    ) -> None:
        """Mark a plugin as failed; a warning unless it was named, which is the caller's error."""
        record.state, record.reason, record.error = PluginState.FAILED, reason, error
        if not (asked or record.named):
            logger.warning("%s; going on without it", failure_text(record))

    def _record(self, point: EntryPoint) -> PluginRecord:
        distribution = point.dist.name if point.dist is not None else "unknown"
        return PluginRecord(
            group=point.group,
            name=point.name,
            distribution=distribution,
            version=point.dist.version if point.dist is not None else "?",
            value=point.value,
            built_in=distribution == OWN_DISTRIBUTION,
            named=point.name in (self.wanted or ()),
            entry_point=point,
        )

    def _refuse_duplicates(self) -> None:
        """Of plugins with one name in one group only a built-in one is kept."""
        wanted = [record for record in self.records if record.state is PluginState.FOUND]
        counts = Counter((record.group, record.name) for record in wanted)
        for record in wanted:
            if counts[record.group, record.name] == 1 or record.built_in:
                continue
            others = [
                f"{other.value} ({other.origin})"
                for other in wanted
                if other is not record and (other.group, other.name) == (record.group, record.name)
            ]
            reason = (
                f"its name is taken twice: {record.value} ({record.origin}) and "
                f"{', '.join(others)}; uninstall one of them"
            )
            self.fail(record, reason)

    def _apply_filter(self) -> None:
        if self.wanted is None:
            return
        platform_named = any(record.named for record in self.platforms())
        for record in self.records:
            keep = record.named or (record.built_in and self._stays(record, platform_named))
            if not keep:
                record.state = PluginState.FILTERED
                record.reason = f"not named in {FILTER_VARIABLE}"

    @staticmethod
    def _stays(record: PluginRecord, platform_named: bool) -> bool:
        """Whether a built-in plugin stays a candidate although it is not named."""
        return record.group != PLATFORM_GROUP or not platform_named

    def _call(self, record: PluginRecord, asked: bool) -> None:
        started = time.perf_counter()
        try:
            function: Callable[[], Any] = load_plugin(record.entry_point)
            record.result = function()
            record.state = PluginState.LOADED
        except PLUGIN_FAILURES as error:
            self.fail(record, describe(error), error, asked=asked)
        finally:
            record.load_seconds = time.perf_counter() - started


def _order(point: EntryPoint) -> tuple[bool, str, str]:
    """The same order on every machine, whatever order its file system lists folders in."""
    return point.group != PLATFORM_GROUP, point.name, point.value


def parse_filter(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Names in VLLM_PLUGINS, blanks ignored; None where it is not set."""
    value = environ.get(FILTER_VARIABLE)
    if value is None:
        return None
    return tuple(name.strip() for name in value.split(",") if name.strip())


def describe(error: BaseException) -> str:
    """An exception in one line, with the one that caused it."""
    text = str(error) if isinstance(error, PluginError) else _one_line(error)
    cause = error.__cause__
    return text if cause is None else f"{text} (caused by {_one_line(cause)})"


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def failure_text(record: PluginRecord) -> str:
    """One line that names a failed plugin and says why."""
    return f"plugin {record.name!r} of {record.origin} failed: {record.reason}"


@functools.cache
def default_manager() -> PluginManager:
    """The process' own manager: each plugin is loaded and probed once a process."""
    return PluginManager()
