"""Hardware that is present and that no installed platform serves."""

from __future__ import annotations

from runtime.core.platform.probing import Candidate
from runtime.plugins.errors import PluginError
from runtime.plugins.hardware import Hardware
from runtime.plugins.manager import PluginManager
from runtime.plugins.records import PluginRecord, PluginState, failure_text


def unserved_hardware(manager: PluginManager) -> list[Hardware]:
    """What hardware plugins have seen, without what a platform serves.

    Served is what an installed platform plugin is named after, whether it can run or says itself
    why not; and what a platform that can run here lists in ``serves``. Imports and probes no
    platform: those that were not probed yet are known by name only.

    Raises:
        PluginError: a hardware plugin that VLLM_PLUGINS names failed.
    """
    return [
        hardware
        for record in manager.hardware()
        if record.state is not PluginState.FILTERED
        for hardware in hardware_of(manager, record)
    ]


def hardware_of(manager: PluginManager, record: PluginRecord) -> list[Hardware]:
    """What one hardware plugin has seen, without what a platform serves."""
    seen = manager.load(record)
    if record.state is not PluginState.LOADED:
        return []
    found = manager.attempt(record, lambda: _checked(seen)) or []
    if record.error is not None and record.named:
        raise PluginError(failure_text(record)) from record.error
    names = {platform.name for platform in manager.platforms()}
    kinds = {kind for platform in manager.platforms() for kind in _serves(platform)}
    return [one for one in found if one.platform not in names and one.kind not in kinds]


def _serves(record: PluginRecord) -> tuple[str, ...]:
    candidate = record.probed
    if not isinstance(candidate, Candidate) or candidate.platform_class is None:
        return ()
    return tuple(candidate.platform_class.serves) if candidate.probe.available else ()


def _checked(seen: object) -> list[Hardware]:
    if seen is None:
        return []
    if not isinstance(seen, list) or not all(isinstance(one, Hardware) for one in seen):
        raise PluginError(f"returned {seen!r} where a list of Hardware is expected")
    return seen
