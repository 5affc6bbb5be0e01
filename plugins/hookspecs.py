"""The hooks that a plugin may implement, all of them.

An entry point is either a plain callable, which stands for its group's one hook, or a module or
object with functions marked ``@hookimpl``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pluggy

PROJECT = "runtime"
PLUGIN_API_VERSION = (1, 0)
"""Major and minor version. A plugin says in ``runtime_plugin_api`` which one it was written for."""

PLATFORM_GROUP = "runtime.platform_plugins"
GENERAL_GROUP = "runtime.general_plugins"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def runtime_platform() -> str | None:
    """Name the platform class, ``package.module:Class``, or None: nothing for this machine.

    Group ``runtime.platform_plugins``. Called in every process at start-up: no driver, no heavy
    import. The class is imported afterwards and asked by its ``probe()``.
    """


@hookspec
def runtime_register() -> None:
    """Register models, ops, logits processors or anything else that has a registry.

    Group ``runtime.general_plugins``. Called in every process at start-up, possibly more than
    once: it must be re-entrant, and should register names rather than import what they name.
    """


HOOK_OF_GROUP: Mapping[str, str] = MappingProxyType(
    {PLATFORM_GROUP: "runtime_platform", GENERAL_GROUP: "runtime_register"}
)
"""The hook for which a plain callable stands."""
