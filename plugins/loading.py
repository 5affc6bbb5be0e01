"""From an entry point to something that can be called, or the reason why it cannot."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import pluggy

from runtime.plugins import hookspecs
from runtime.plugins.errors import PluginError
from runtime.plugins.hookspecs import HOOK_OF_GROUP, PLUGIN_API_VERSION, PROJECT

API_ATTRIBUTE = "runtime_plugin_api"


def load_plugin(entry_point: EntryPoint) -> Callable[[], Any]:
    """Import an entry point and return what its group's hook calls.

    Raises:
        PluginError: it was written for another API version, or its signature is wrong.
        Exception: whatever importing it raised.
    """
    plugin = entry_point.load()
    check_api_version(plugin)
    hook_name = HOOK_OF_GROUP[entry_point.group]
    if _has_hooks(plugin):
        return _from_hooks(plugin, entry_point.name, hook_name)
    if not callable(plugin):
        raise PluginError(
            f"{entry_point.value} is neither callable nor has functions marked @hookimpl"
        )
    _check_callable(plugin, hook_name)
    function: Callable[[], Any] = plugin
    return function


def check_api_version(plugin: object) -> None:
    """Refuse a plugin that was written for another API; one that does not say is taken as ours.

    Compatible is the same major version and a minor one that is not newer.
    """
    module = sys.modules.get(getattr(plugin, "__module__", None) or "")
    declared = getattr(plugin, API_ATTRIBUTE, getattr(module, API_ATTRIBUTE, None))
    if declared is None:
        return
    try:
        parts = declared.split(".") if isinstance(declared, str) else declared
        major, minor = (int(part) for part in parts)
    except (TypeError, ValueError):
        raise PluginError(
            f"{API_ATTRIBUTE}={declared!r} must be (major, minor) or 'major.minor'"
        ) from None
    if major != PLUGIN_API_VERSION[0] or minor > PLUGIN_API_VERSION[1]:
        own = ".".join(map(str, PLUGIN_API_VERSION))
        raise PluginError(
            f"written for plugin API {major}.{minor}, this runtime has {own}: "
            "install versions of the two that agree"
        )


def hook_signature(hook_name: str) -> str:
    """A hook as its specification and the documentation write it, ``name() -> type``."""
    return f"{hook_name}{inspect.signature(getattr(hookspecs, hook_name), eval_str=True)}"


def _has_hooks(plugin: object) -> bool:
    marker = f"{PROJECT}_impl"
    return any(hasattr(getattr(plugin, name, None), marker) for name in dir(plugin))


def _from_hooks(plugin: object, name: str, hook_name: str) -> Callable[[], Any]:
    """Let pluggy check the implementations against the specifications."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(plugin, name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise PluginError(_wrong_hook(plugin, error)) from None
    hook: Callable[[], Any] = getattr(manager.hook, hook_name)
    return hook


def _wrong_hook(plugin: object, error: Exception) -> str:
    """Both sides of a hook that does not fit its specification."""
    for name in dir(plugin):
        function = getattr(plugin, name, None)
        if not hasattr(function, f"{PROJECT}_impl") or not callable(function):
            continue
        specification = getattr(hookspecs, name, None)
        theirs = f"{name}{inspect.signature(function)}"
        if specification is None:
            known = ", ".join(sorted(HOOK_OF_GROUP.values()))
            return f"implements {theirs}, which is no hook (known: {known})"
        if inspect.signature(function).parameters.keys() - _parameters(specification):
            return f"implements {theirs}, the hook is {hook_signature(name)}"
    return " ".join(str(error).split())


def _parameters(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters)


def _check_callable(plugin: Callable[..., Any], hook_name: str) -> None:
    try:
        signature = inspect.signature(plugin)
        signature.bind()
    except (TypeError, ValueError):
        found = f"{getattr(plugin, '__qualname__', plugin)}{_signature_text(plugin)}"
        raise PluginError(f"is {found}, but is called as {hook_signature(hook_name)}") from None


def _signature_text(plugin: Callable[..., Any]) -> str:
    try:
        return str(inspect.signature(plugin))
    except (TypeError, ValueError):
        return "(…)"
