"""Which plugins are installed, which are wanted, and what became of each."""

from __future__ import annotations

import functools
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from runtime.plugins.deprecations import DEPRECATIONS, Deprecation
from runtime.plugins.errors import PluginError
from runtime.plugins.groups import (
    GENERAL_GROUP,
    HARDWARE_GROUP,
    HOOK_OF_GROUP,
    PLATFORM_GROUP,
    SERVER_GROUP,
)
from runtime.plugins.loading import LoadedPlugin, import_package, load_plugin
from runtime.plugins.order import Wishes, in_order
from runtime.plugins.records import PluginRecord, PluginState, describe, failure_text, record_of

logger = logging.getLogger(__name__)
T = TypeVar("T")

FILTER_VARIABLE = "VLLM_PLUGINS"
GROUPS = tuple(HOOK_OF_GROUP)
PLUGIN_FAILURES = (Exception, SystemExit)
"""What a plugin's code may raise without ending the process: an exit is its failure too."""


@dataclass
class PluginManager:
    """Finds plugins and calls each at most once.

    Records are in the order of their groups and, within one, by name. ``environ`` is read when the
    manager is made.
    """

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    found: Iterable[EntryPoint] | None = None
    """Entry points to consider; None: those that are installed."""
    deprecations: Iterable[Deprecation] = DEPRECATIONS
    before_import: Callable[[str], None] | None = None
    """Told the import package of a plugin before it is imported, so that its log can be shown."""
    records: list[PluginRecord] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        """Find and filter, importing nothing."""
        found = self.found
        if found is None:
            found = [point for group in GROUPS for point in entry_points(group=group)]
        self.wanted = parse_filter(self.environ)
        self.records = [record_of(point, self.wanted) for point in sorted(found, key=_order)]
        self._apply_filter()
        self._refuse_duplicates()

    def platforms(self) -> list[PluginRecord]:
        """All platform plugins, whatever their state."""
        return [record for record in self.records if record.group == PLATFORM_GROUP]

    def general(self) -> list[PluginRecord]:
        """All general plugins, whatever their state."""
        return [record for record in self.records if record.group == GENERAL_GROUP]

    def hardware(self) -> list[PluginRecord]:
        """All plugins that look for hardware, whatever their state."""
        return [record for record in self.records if record.group == HARDWARE_GROUP]

    def server(self) -> list[PluginRecord]:
        """All plugins that add to the HTTP server, whatever their state."""
        return [record for record in self.records if record.group == SERVER_GROUP]

    def load(self, record: PluginRecord, *, asked: bool = False) -> Any:
        """Call a plugin, if that has not been done, and return what it returned.

        ``asked`` says that the user named it for this call, by whatever way.

        Raises:
            PluginError: it failed, now or before, and the user or VLLM_PLUGINS names it. A plugin
                that was merely found is logged as a warning instead, and gives None.
        """
        self._import(record, asked=asked)
        if record.state is PluginState.FOUND and record.loaded is not None:
            record.result = self.attempt(record, record.loaded.function, asked=asked)
            if record.error is None:
                record.state = PluginState.LOADED
        if record.state is PluginState.FAILED and (asked or record.named):
            raise PluginError(failure_text(record)) from record.error
        return record.result

    def load_general(self) -> None:
        """Call every wanted general plugin, if that has not been done, in the order they ask for.

        Raises:
            PluginError: one that VLLM_PLUGINS names is not installed or failed, or they ask for an
                order that cannot be; so does every later call.
        """
        self.check_names()
        for record in self.general_in_order():
            self.load(record)

    def general_in_order(self) -> list[PluginRecord]:
        """General plugins that are not filtered out, imported, in the order in which to call them.

        Those that cannot be imported come first.

        Raises:
            PluginError: their ``runtime_plugin_before`` and ``runtime_plugin_after`` make a circle.
        """
        wanted = [record for record in self.general() if record.state is not PluginState.FILTERED]
        for record in wanted:
            self._import(record)
        wishes: dict[str, Wishes] = {}
        by_name: dict[str, PluginRecord] = {}
        failed = []
        for record in wanted:
            if record.loaded is None:
                failed.append(record)
            else:
                wishes[record.name] = record.loaded.wishes
                by_name[record.name] = record
        return [*failed, *(by_name[name] for name in in_order(wishes))]

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

    def attempt(
        self, record: PluginRecord, work: Callable[[], T], *, asked: bool = False
    ) -> T | None:
        """Run code of a plugin: its result, or None where it raises and is a failed one from then.

        The time it takes is counted as the plugin's.
        """
        started = time.perf_counter()
        try:
            return work()
        except PLUGIN_FAILURES as error:
            self._fail(record, describe(error), error, asked=asked)
            return None
        finally:
            record.load_seconds += time.perf_counter() - started

    def announce(self, package: str) -> None:
        """Say that code of an import package is about to run for the first time."""
        if self.before_import is not None:
            self.before_import(package)

    def _import(self, record: PluginRecord, *, asked: bool = False) -> None:
        if record.state is not PluginState.FOUND or record.loaded is not None:
            return

        def work() -> LoadedPlugin:
            self.announce(import_package(record.value))
            return load_plugin(record.entry_point, self.deprecations)

        record.loaded = self.attempt(record, work, asked=asked)
        for entry in record.loaded.deprecated if record.loaded is not None else ():
            logger.warning("plugin %r of %s %s", record.name, record.origin, entry.warning())

    def _fail(
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
            self._fail(record, reason)

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


def _order(point: EntryPoint) -> tuple[int, str, str]:
    """The same order on every machine, whatever order its file system lists folders in."""
    return GROUPS.index(point.group), point.name, point.value


def parse_filter(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Names in VLLM_PLUGINS, blanks ignored; None where it is not set."""
    value = environ.get(FILTER_VARIABLE)
    if value is None:
        return None
    return tuple(name.strip() for name in value.split(",") if name.strip())


@functools.cache
def default_manager() -> PluginManager:
    """The process' own manager: each plugin is loaded and probed once a process."""
    return PluginManager()
