"""The hooks that a plugin may implement, all of them.

An entry point is a plain callable, which stands for its group's one hook, or has ``@hookimpl``s.
"""

from __future__ import annotations

import pluggy

from runtime.plugins.hardware import Hardware
from runtime.plugins.server_extension import ServerExtension

PROJECT = "runtime"
PLUGIN_API_VERSION = (1, 0)
"""Major and minor version. A plugin says in ``runtime_plugin_api`` which one it was written for."""

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


@hookspec(firstresult=True)
def runtime_server() -> ServerExtension | None:
    """Add routes, middleware and stat loggers to the HTTP server.

    Group ``runtime.server_plugins``. Called in a server's process, once, before it listens.
    """
