"""Asking platform plugins what they say of this machine, each once a process."""

from __future__ import annotations

import inspect
import pkgutil
from dataclasses import dataclass
from typing import Any

from runtime.core.errors import PlatformError
from runtime.core.platform.interface import Platform, ProbeResult
from runtime.plugins.errors import PluginError
from runtime.plugins.loading import import_package
from runtime.plugins.manager import PluginManager
from runtime.plugins.records import PluginRecord, PluginState, describe, failure_text

BASE = "runtime.core.platform.interface.Platform"


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


def probe(manager: PluginManager, record: PluginRecord, *, asked: bool = False) -> Candidate:
    """Load a platform plugin, import its class and ask it; ``asked``: the user named it.

    The answer stays with the record.

    Raises:
        PluginError: the plugin failed, now or before, and the user or VLLM_PLUGINS names it.
    """
    if record.probed is None:
        result = manager.load(record, asked=asked)
        record.probed = Candidate(record, None, ProbeResult.no(record.reason))
        if record.state is PluginState.LOADED:
            record.probed = manager.attempt(
                record, lambda: _ask(manager, record, result), asked=asked
            )
    if record.state is PluginState.FAILED:
        record.probed = Candidate(record, None, ProbeResult.no(record.reason))
        if asked or record.named:
            raise PluginError(failure_text(record)) from record.error
    else:
        record.reason = record.probed.probe.reason
    candidate: Candidate = record.probed
    return candidate


def probe_all(manager: PluginManager) -> list[Candidate]:
    """Every platform plugin that is not filtered out, probed.

    Raises:
        PluginError: one that VLLM_PLUGINS names failed.
    """
    return [
        probe(manager, record)
        for record in manager.platforms()
        if record.state is not PluginState.FILTERED
    ]


def make(platform_class: type[Platform]) -> Platform:
    """An object of a class that was not found by way of a plugin.

    Raises:
        PlatformError: it is no complete platform, or its constructor raises.
    """
    try:
        if not _is_platform(platform_class):
            raise PluginError(f"{platform_class.__qualname__} is not a subclass of {BASE}")
        _check_complete(platform_class, platform_class.__qualname__)
        return platform_class()
    except Exception as error:
        raise PlatformError(f"platform={platform_class!r}: {describe(error)}") from error


def _ask(manager: PluginManager, record: PluginRecord, name: object) -> Candidate:
    if name is None:
        return Candidate(record, None, ProbeResult.no("the plugin offers no platform here"))
    platform_class = _platform_class(manager, record, name)
    return Candidate(record, platform_class, _checked(platform_class.probe()))


def _platform_class(manager: PluginManager, record: PluginRecord, name: object) -> type[Platform]:
    """The class that a plugin names, checked."""
    if not isinstance(name, str):
        raise PluginError(f"returned {name!r} where a class's qualified name or None is expected")
    manager.announce(import_package(name))
    found = pkgutil.resolve_name(name)
    if not _is_platform(found):
        raise PluginError(f"{name} is not a subclass of {BASE}")
    _check_complete(found, name)
    if found.name != record.name:
        raise PluginError(
            f"the entry point is called {record.name!r}, its platform {found.name!r}: "
            "the two must be the same"
        )
    platform_class: type[Platform] = found
    return platform_class


def _is_platform(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, Platform)


def _check_complete(platform_class: type[Platform], name: str) -> None:
    """Refuse a class that lacks what a platform must bring.

    ABC does not look into a cached property, nor for class variables.
    """
    members = {name: inspect.getattr_static(platform_class, name) for name in dir(platform_class)}
    functions = {name: getattr(member, "func", member) for name, member in members.items()}
    missing = [name for name in ("name", "device_type") if not hasattr(platform_class, name)]
    missing += [
        name for name, it in functions.items() if getattr(it, "__isabstractmethod__", False)
    ]
    if missing:
        raise PluginError(f"{name} does not implement {', '.join(missing)}")


def _checked(result: Any) -> ProbeResult:
    """What a probe returned, refused where it is no answer."""
    if not isinstance(result, ProbeResult):
        raise PluginError(f"its probe returned {result!r} where a ProbeResult is expected")
    # A bool is an int, and NaN compares with nothing.
    if result.score is not None and (type(result.score) is not int or result.score < 0):
        raise PluginError(
            f"its probe returned the score {result.score!r}, "
            "which is neither None nor an int that is not negative"
        )
    if not isinstance(result.reason, str) or not result.reason.strip():
        raise PluginError(
            f"its probe returned the reason {result.reason!r}, where words for users are expected"
        )
    return result
