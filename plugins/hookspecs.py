"""The hooks that a plugin may implement, all of them.

An entry point is a plain callable, which stands for its group's one hook, or has ``@hookimpl``s.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pluggy

from runtime.plugins.hardware import Hardware

PROJECT = "runtime"
PLUGIN_API_VERSION = (1, 0)
"""Major and minor version. A plugin says in ``runtime_plugin_api`` which one it was written for."""

PLATFORM_GROUP = "runtime.platform_plugins"
GENERAL_GROUP = "runtime.general_plugins"
HARDWARE_GROUP = "runtime.hardware_plugins"

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


@hookspec(firstresult=True)
def runtime_hardware() -> list[Hardware] | None:
    """List hardware that is present, so that users learn of a platform that they lack.

    Group ``runtime.hardware_plugins``. Looks at files only. What a platform serves is left out.
    """


HOOK_OF_GROUP: Mapping[str, str] = MappingProxyType(
    {
        PLATFORM_GROUP: "runtime_platform",
        GENERAL_GROUP: "runtime_register",
        HARDWARE_GROUP: "runtime_hardware",
    }
)
"""The hook for which a plain callable stands."""
