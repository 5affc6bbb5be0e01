"""Choosing the platform: by name, or the best one that can run here."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.core.errors import PlatformError
from runtime.core.platform.interface import Platform, ProbeResult
from runtime.plugins.errors import PluginError
from runtime.plugins.manager import (
    PLUGIN_FAILURES,
    PluginManager,
    PluginRecord,
    PluginState,
    default_manager,
    describe,
    failure_text,
)

logger = logging.getLogger(__name__)

DEVICE_VARIABLE = "VLLM_TARGET_DEVICE"


@dataclass(frozen=True)
class Candidate:
    """A platform plugin, and what it says of this machine."""

    record: PluginRecord
    platform_class: type[Platform] | None
    probe: ProbeResult

    @property
    def name(self) -> str:
        """The plugin's name, which is the platform's."""
        return self.record.name

    @property
    def rank(self) -> tuple[bool, int]:
        """Out of tree before built in, then the score."""
        return not self.record.built_in, self.probe.score or 0

    def __str__(self) -> str:
        """Name and reason, for messages."""
        return f"{self.name}: {self.probe.reason}"


@dataclass(frozen=True)
class Selection:
    """The chosen platform and the story of the choice."""

    platform: Platform
    reason: str
    """One line: the platform, how it was chosen, and what the others said."""
    candidates: tuple[Candidate, ...] = field(default=())


class Prober:
    """Probes platform plugins, each at most once."""

    def __init__(self, manager: PluginManager) -> None:
        self.manager = manager
        self._probed: dict[int, Candidate] = {}

    def probe(self, record: PluginRecord, *, asked: bool = False) -> Candidate:
        """Load the plugin, import its class and ask it; ``asked``: the user named it.

        Raises:
            PluginError: the plugin failed, and the user or VLLM_PLUGINS names it.
        """
        key = id(record)
        if key not in self._probed:
            self._probed[key] = self._probe(record, asked)
        return self._probed[key]

    def _probe(self, record: PluginRecord, asked: bool) -> Candidate:
        name = self.manager.load(record, asked=asked)
        if record.state is not PluginState.LOADED:
            return Candidate(record, None, ProbeResult.no(record.reason))
        if name is None:
            record.reason = "the plugin offers no platform here"
            return Candidate(record, None, ProbeResult.no(record.reason))
        try:
            platform_class = _platform_class(record, name)
            result = _checked(platform_class.probe())
        except PLUGIN_FAILURES as error:
            self.manager.fail(record, describe(error), error, asked=asked)
            if asked or record.named:
                raise PluginError(failure_text(record)) from error
            return Candidate(record, None, ProbeResult.no(record.reason))
        record.reason = result.reason
        return Candidate(record, platform_class, result)


@functools.cache
def default_prober() -> Prober:
    """The process' own prober, so that engines made one after the other probe once."""
    return Prober(default_manager())


def _platform_class(record: PluginRecord, name: object) -> type[Platform]:
    """The class that a plugin names, checked."""
    if not isinstance(name, str):
        raise PluginError(f"returned {name!r} where a class's qualified name or None is expected")
    found = pkgutil.resolve_name(name)
    if not (isinstance(found, type) and issubclass(found, Platform)):
        raise PluginError(f"{name} is not a subclass of runtime.core.platform.interface.Platform")
    if found.name != record.name:
        raise PluginError(
            f"the entry point is called {record.name!r}, its platform {found.name!r}: "
            "the two must be the same"
        )
    if missing := _abstract_members(found):
        raise PluginError(f"{name} does not implement {', '.join(missing)}")
    return found


def _abstract_members(platform_class: type[Platform]) -> list[str]:
    """What a platform must bring and does not; ABC does not look into a cached property."""
    members = {name: inspect.getattr_static(platform_class, name) for name in dir(platform_class)}
    functions = {name: getattr(member, "func", member) for name, member in members.items()}
    return [name for name, it in functions.items() if getattr(it, "__isabstractmethod__", False)]


def _checked(result: object) -> ProbeResult:
    """What a probe returned, refused where it is no answer."""
    if not isinstance(result, ProbeResult) or not isinstance(result.score, int | None):
        raise PluginError(
            f"its probe returned {result!r} where a ProbeResult with an int or None is expected"
        )
    return result


def select_platform(
    requested: str | Platform | type[Platform] | None = None,
    *,
    manager: PluginManager | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Selection:
    """Choose a platform: ``requested``, else VLLM_TARGET_DEVICE, else the best one.

    A name is strict: that platform or an error, and no other is loaded or probed. A platform
    object or class is taken as it is.

    Raises:
        PlatformError: nothing can be chosen; the message has each one's reason.
    """
    if isinstance(requested, Platform):
        return Selection(requested, f"{requested.name}: given as an object")
    if isinstance(requested, type):
        return Selection(requested(), f"{requested.name}: given as a class")
    source = "asked for by platform"
    name = requested
    if not name and environ.get(DEVICE_VARIABLE):
        name, source = environ[DEVICE_VARIABLE], f"asked for by {DEVICE_VARIABLE}"
    prober = default_prober() if manager is None else Prober(manager)
    try:
        prober.manager.check_names()
        if name:
            return _by_name(prober, name, source)
        return _best(prober)
    except PluginError as error:
        raise PlatformError(str(error)) from error


def _by_name(prober: Prober, name: str, source: str) -> Selection:
    records = [record for record in prober.manager.platforms() if record.name == name]
    if not records:
        known = ", ".join(sorted({record.name for record in prober.manager.platforms()}))
        raise PlatformError(
            f"platform {name!r} ({source}) is not installed; installed: {known or 'none'}"
        )
    # Of plugins with one name, the built-in one or none is left in working order.
    record = next((r for r in records if r.state is not PluginState.FAILED), records[0])
    if record.state in (PluginState.FILTERED, PluginState.FAILED):
        raise PlatformError(f"platform {name!r} ({source}) cannot be used: {record.reason}")
    candidate = prober.probe(record, asked=True)
    if candidate.platform_class is None or not candidate.probe.available:
        raise PlatformError(
            f"platform {name!r} ({source}) cannot run here: {candidate.probe.reason}"
        ) from record.error
    reason = f"{candidate} ({source})"
    return Selection(candidate.platform_class(), reason, (candidate,))


def _best(prober: Prober) -> Selection:
    candidates = probe_all(prober)
    fit = [c for c in candidates if c.platform_class is not None and (c.probe.score or 0) > 0]
    if not fit:
        stories = "; ".join(map(str, candidates)) or "no platform plugin is installed"
        raise PlatformError(
            f"no platform can be chosen: {stories}. Name one by --platform or {DEVICE_VARIABLE}, "
            "or install one"
        )
    fit.sort(key=lambda candidate: candidate.rank, reverse=True)
    best = fit[0]
    ties = [c for c in fit if c.rank == best.rank]
    if len(ties) > 1:
        names = " and ".join(f"{c.name!r} ({c.record.origin})" for c in ties)
        raise PlatformError(
            f"platforms {names} tie with score {best.probe.score}: choose one by --platform NAME "
            f"or {DEVICE_VARIABLE}=NAME"
        )
    others = "; ".join(str(c) for c in candidates if c is not best)
    chosen = f"{best} (chosen automatically, score {best.probe.score}"
    reason = f"{chosen}; others: {others})" if others else f"{chosen})"
    assert best.platform_class is not None
    return Selection(best.platform_class(), reason, tuple(candidates))


def probe_all(prober: Prober) -> list[Candidate]:
    """Every platform plugin that is not filtered out, probed."""
    return [
        prober.probe(record)
        for record in prober.manager.platforms()
        if record.state is not PluginState.FILTERED
    ]
