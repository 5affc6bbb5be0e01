"""All that is known of one plugin, for ``runtime plugins --explain NAME``."""

from __future__ import annotations

import dataclasses
import os
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from runtime.core.entrypoints.cli.secrets import shown
from runtime.core.errors import ConfigError
from runtime.core.platform.interface import Platform
from runtime.core.platform.probing import Candidate
from runtime.plugins.deprecations import version_text
from runtime.plugins.hookspecs import PLUGIN_API_VERSION
from runtime.plugins.manager import FILTER_VARIABLE, PluginManager
from runtime.plugins.records import PluginRecord, PluginState, describe

Line = tuple[str, str]


def explain(manager: PluginManager, name: str, rows: Sequence[dict[str, Any]]) -> str:
    """The stories of the plugins of one name, which were loaded and probed before.

    Args:
        manager: Where they were found.
        name: Of an installed plugin, of any group.
        rows: What ``runtime plugins --json`` prints of each of the manager's records.

    Raises:
        ConfigError: no installed plugin has that name; lists those there are.
    """
    pairs = [(r, row) for r, row in zip(manager.records, rows, strict=True) if r.name == name]
    if not pairs:
        installed = ", ".join(sorted({record.name for record in manager.records})) or "none"
        raise ConfigError(f"--explain {name}: no such plugin; installed: {installed}")
    return "\n\n".join(_story(manager, record, row) for record, row in pairs)


def _story(manager: PluginManager, record: PluginRecord, row: dict[str, Any]) -> str:
    lines = [
        ("plugin", f"{record.name} ({record.group})"),
        ("state", row["state"]),
        ("reason", row["reason"]),
        *_origin(manager, record),
        *_interface(record),
        *_platform(record),
    ]
    width = max(len(label) for label, _ in lines)
    text = "\n".join(f"{label.ljust(width)}  {value}" for label, value in lines)
    if record.error is not None:
        text += "\n\n" + "".join(traceback.format_exception(record.error)).rstrip()
    return text


def _origin(manager: PluginManager, record: PluginRecord) -> Iterator[Line]:
    """Where it comes from, and whether it is wanted."""
    distribution = record.entry_point.dist
    where = f" in {distribution.locate_file('')}" if distribution is not None else ""
    yield "distribution", f"{record.origin}{where}{', built in' if record.built_in else ''}"
    yield "entry point", f"{record.name} = {record.value}"
    if manager.wanted is None:
        wanted = f"by default: {FILTER_VARIABLE} is not set"
    else:
        setting = f"{FILTER_VARIABLE}={manager.environ.get(FILTER_VARIABLE, '')!r}"
        if record.state is PluginState.FILTERED:
            wanted = f"no: {setting} does not name it; it was not imported"
        else:
            wanted = f"yes: {setting} names it" if record.named else f"yes, with {setting}"
    yield "wanted", wanted


def _interface(record: PluginRecord) -> Iterator[Line]:
    """What importing it told."""
    own = version_text(PLUGIN_API_VERSION)
    loaded = record.loaded
    if loaded is None:
        yield "imported", "no"
        return
    yield "file", loaded.file
    yield "plugin API", f"{loaded.api or 'not stated, taken as compatible'} (this runtime: {own})"
    yield "hooks", ", ".join(loaded.hooks)
    if loaded.wishes.before or loaded.wishes.after:
        before, after = (", ".join(names) or "-" for names in dataclasses.astuple(loaded.wishes))
        yield "registers", f"before {before}, after {after}"
    for entry in loaded.deprecated:
        yield "deprecated", entry.warning()
    yield "load time", f"{record.load_seconds * 1000:.1f} ms"


def _platform(record: PluginRecord) -> Iterator[Line]:
    """What its platform says of itself; nothing for other plugins."""
    candidate = record.probed
    if not isinstance(candidate, Candidate) or candidate.platform_class is None:
        return
    platform_class = candidate.platform_class
    yield "class", f"{platform_class.__module__}:{platform_class.__qualname__}"
    score = candidate.probe.score
    meaning = " (by name only)" if score == 0 else ""
    yield "score", "none: it cannot run here" if score is None else f"{score}{meaning}"
    yield "serves", ", ".join([record.name, *platform_class.serves])
    if not candidate.probe.available:
        return
    try:
        yield from _details(platform_class())
    except Exception as error:
        yield "details", f"cannot be had: {describe(error)}"


def _details(platform: Platform) -> Iterator[Line]:
    yield "torch device type", platform.device_type
    capabilities = platform.capabilities
    for item in dataclasses.fields(capabilities):
        yield f"  {item.name}", str(getattr(capabilities, item.name))
    for name, text in platform.environment.items():
        value = repr(shown(name, os.environ[name])) if name in os.environ else "not set"
        yield f"${name}", f"{value}; {text}"
    for library in platform.kernel_libraries:
        found = library.found or "missing"
        yield "kernels", f"{library.name}: built for torch {library.built_for}, found {found}"
