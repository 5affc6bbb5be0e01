"""Choosing the platform: by name, or the best one that can run here."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.core.errors import PlatformError
from runtime.core.platform.hardware import unserved_hardware
from runtime.core.platform.interface import Platform
from runtime.core.platform.probing import Candidate, make, probe, probe_all
from runtime.plugins.errors import PluginError
from runtime.plugins.hardware import Hardware
from runtime.plugins.manager import PluginManager, default_manager
from runtime.plugins.records import PluginState, failure_text

logger = logging.getLogger(__name__)

DEVICE_VARIABLE = "VLLM_TARGET_DEVICE"


@dataclass(frozen=True)
class Selection:
    """The chosen platform and the story of the choice."""

    platform: Platform
    reason: str
    """One line: the platform, how it was chosen, and what the others said."""
    candidates: tuple[Candidate, ...] = field(default=())
    unserved: tuple[Hardware, ...] = field(default=())
    """Hardware that is present and that none of the candidates serves; empty where one was named.
    """


def select_platform(
    requested: str | Platform | type[Platform] | None = None,
    *,
    manager: PluginManager | None = None,
    environ: Mapping[str, str] = os.environ,
    announce: bool = True,
) -> Selection:
    """Choose a platform: ``requested``, else VLLM_TARGET_DEVICE, else the best one.

    A name is strict: that platform or an error, and no other is loaded or probed. A platform
    object or class is taken as it is. Where nobody names one, hardware that no platform serves is
    logged, unless ``announce`` is False.

    Raises:
        PlatformError: nothing can be chosen; the message has each one's reason.
    """
    if isinstance(requested, Platform):
        return Selection(requested, f"{requested.name}: given as an object")
    if isinstance(requested, type):
        return Selection(make(requested), f"{requested.name}: given as a class")
    if requested is not None and not isinstance(requested, str):
        raise PlatformError(
            f"platform={requested!r} must be a platform's name, or a Platform object or class"
        )
    name, source = (requested or "").strip(), "asked for by platform"
    if not name:
        name = environ.get(DEVICE_VARIABLE, "").strip()
        source = f"asked for by {DEVICE_VARIABLE}"
    manager = default_manager() if manager is None else manager
    try:
        manager.check_names()
        selection = _by_name(manager, name, source) if name else _best(manager)
    except PluginError as error:
        raise PlatformError(str(error)) from error
    for hardware in selection.unserved if announce else ():
        logger.info("%s", hardware)
    return selection


def _by_name(manager: PluginManager, name: str, source: str) -> Selection:
    records = [record for record in manager.platforms() if record.name == name]
    if not records:
        known = ", ".join(sorted({record.name for record in manager.platforms()}))
        raise PlatformError(
            f"platform {name!r} ({source}) is not installed; installed: {known or 'none'}"
        )
    # Of plugins with one name, the built-in one or none is left in working order.
    record = next((r for r in records if r.state is not PluginState.FAILED), records[0])
    if record.state in (PluginState.FILTERED, PluginState.FAILED):
        raise PlatformError(f"platform {name!r} ({source}) cannot be used: {record.reason}")
    candidate = probe(manager, record, asked=True)
    platform = _make(manager, candidate, asked=True)
    if platform is None:
        raise PlatformError(
            f"platform {name!r} ({source}) cannot run here: {candidate.probe.reason}"
        ) from record.error
    return Selection(platform, f"{candidate} ({source})", (candidate,))


def _make(manager: PluginManager, candidate: Candidate, *, asked: bool = False) -> Platform | None:
    """The candidate's platform; None where it cannot run here or its constructor raises.

    Raises:
        PluginError: the constructor raised, and the user or VLLM_PLUGINS names the platform.
    """
    record = candidate.record
    if candidate.platform_class is None or not candidate.probe.available:
        return None
    platform = manager.attempt(record, candidate.platform_class, asked=asked)
    if platform is None and (asked or record.named):
        raise PluginError(failure_text(record)) from record.error
    return platform


def _best(manager: PluginManager) -> Selection:
    """The one with the highest rank whose constructor works."""
    while True:
        candidates = probe_all(manager)
        fit = [c for c in candidates if (c.probe.score or 0) > 0]
        unserved = tuple(unserved_hardware(manager))
        if not fit:
            raise PlatformError(_nothing_fits(candidates, unserved))
        best = max(fit, key=lambda candidate: candidate.rank)
        _refuse_tie(best, fit)
        # One that fails here is a failed plugin from now on, and no longer fit.
        platform = _make(manager, best)
        if platform is not None:
            break
    others = "; ".join(str(c) for c in candidates if c is not best)
    chosen = f"{best} (chosen automatically, score {best.probe.score}"
    reason = f"{chosen}; others: {others})" if others else f"{chosen})"
    return Selection(platform, reason, tuple(candidates), unserved)


def _nothing_fits(candidates: list[Candidate], unserved: tuple[Hardware, ...]) -> str:
    stories = "; ".join(map(str, candidates)) or "no platform plugin is installed"
    hints = "".join(f". {hardware}" for hardware in unserved)
    return (
        f"no platform can be chosen: {stories}. Name one by --platform or {DEVICE_VARIABLE}, "
        f"or install one{hints}"
    )


def _refuse_tie(best: Candidate, fit: list[Candidate]) -> None:
    ties = [candidate for candidate in fit if candidate.rank == best.rank]
    if len(ties) > 1:
        names = " and ".join(f"{c.name!r} ({c.record.origin})" for c in ties)
        raise PlatformError(
            f"platforms {names} tie with score {best.probe.score}: choose one by --platform NAME "
            f"or {DEVICE_VARIABLE}=NAME"
        )
