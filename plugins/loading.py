"""From an entry point to something that can be called, or the reason why it cannot."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import pluggy

from runtime.plugins import hookspecs
from runtime.plugins.deprecations import Deprecation, deprecated, version_text
from runtime.plugins.errors import PluginError
from runtime.plugins.groups import HOOK_OF_GROUP
from runtime.plugins.hookspecs import PLUGIN_API_VERSION, PROJECT
from runtime.plugins.order import AFTER, BEFORE, Wishes, names_of

API_ATTRIBUTE = "runtime_plugin_api"
PREFIX = "runtime_"
"""What every hook and every attribute that a plugin sets begins with."""
_VALUE = re.compile(r"[\w.]+\s*(:\s*[\w.]+\s*)?(\[.*\]\s*)?")
_MARKER = f"{PROJECT}_impl"


@dataclass(frozen=True)
class LoadedPlugin:
    """An imported plugin that keeps to the interface."""

    function: Callable[[], Any]
    """What its group's hook calls."""
    hooks: tuple[str, ...]
    """Hooks that it implements; a plain callable stands for its group's."""
    api: str | None
    """``major.minor`` of the interface that it was written for; None: it does not say."""
    file: str
    """Where it was imported from."""
    wishes: Wishes
    deprecated: tuple[Deprecation, ...]
    """What it uses that a later release will lack."""


def import_package(value: str) -> str:
    """The top-level import package of an entry point's value.

    Raises:
        PluginError: the value is malformed.
    """
    if not _VALUE.fullmatch(value):
        raise PluginError(
            f"its entry point's value {value!r} is not of the form package.module:attribute"
        )
    return value.partition(":")[0].strip().partition(".")[0]


def load_plugin(entry_point: EntryPoint, deprecations: Iterable[Deprecation]) -> LoadedPlugin:
    """Import an entry point and check it against the interface, calling nothing of it.

    Raises:
        PluginError: it was written for another API version, or does not fit its group.
        Exception: whatever importing it raised.
    """
    import_package(entry_point.value)
    plugin = entry_point.load()
    api = check_api_version(plugin)
    hook_name = HOOK_OF_GROUP[entry_point.group]
    marked = _marked(plugin)
    used = deprecated([*marked, *_attributes(plugin)], PLUGIN_API_VERSION, deprecations)
    for entry in used:
        if entry.removed_in <= PLUGIN_API_VERSION:
            raise PluginError(entry.refusal())
    if marked:
        function = _from_hooks(plugin, marked, entry_point.name, hook_name)
    else:
        function = _from_callable(plugin, entry_point.value, hook_name)
    return LoadedPlugin(
        function=function,
        hooks=tuple(marked) or (hook_name,),
        api=api,
        file=_file(plugin),
        wishes=Wishes(
            names_of(_attribute(plugin, BEFORE, ()), BEFORE),
            names_of(_attribute(plugin, AFTER, ()), AFTER),
        ),
        deprecated=tuple(used),
    )


def check_api_version(plugin: object) -> str | None:
    """Refuse a plugin that was written for another API; one that does not say is taken as ours.

    Compatible is the same major version and a minor one that is not newer. Returns what the plugin
    says.
    """
    declared = _attribute(plugin, API_ATTRIBUTE, None)
    if declared is None:
        return None
    try:
        parts = declared.split(".") if isinstance(declared, str) else declared
        major, minor = (int(part) for part in parts)
    except (TypeError, ValueError):
        raise PluginError(
            f"{API_ATTRIBUTE}={declared!r} must be (major, minor) or 'major.minor'"
        ) from None
    if major != PLUGIN_API_VERSION[0] or minor > PLUGIN_API_VERSION[1]:
        raise PluginError(
            f"written for plugin API {major}.{minor}, this runtime has "
            f"{version_text(PLUGIN_API_VERSION)}: install versions of the two that agree"
        )
    return version_text((major, minor))


def hook_signature(hook_name: str) -> str:
    """A hook as its specification and the documentation write it, ``name() -> type``."""
    return f"{hook_name}{inspect.signature(getattr(hookspecs, hook_name), eval_str=True)}"


def _module(plugin: object) -> ModuleType | None:
    """The module that a plugin is, or was defined in."""
    if isinstance(plugin, ModuleType):
        return plugin
    return sys.modules.get(getattr(plugin, "__module__", None) or "")


def _attribute(plugin: object, name: str, default: Any) -> Any:
    """An attribute of the plugin, else of its module."""
    return getattr(plugin, name, getattr(_module(plugin), name, default))


def _attributes(plugin: object) -> set[str]:
    """Names of ours that a plugin or its module sets."""
    names = {*dir(plugin), *dir(_module(plugin))}
    return {name for name in names if name.startswith(PREFIX)}


def _file(plugin: object) -> str:
    return getattr(_module(plugin), "__file__", None) or "unknown"


def _marked(plugin: object) -> dict[str, Callable[..., Any]]:
    """The functions of a plugin that are marked ``@hookimpl``, by name."""
    found = {name: getattr(plugin, name, None) for name in dir(plugin)}
    return {name: it for name, it in found.items() if hasattr(it, _MARKER) and callable(it)}


def _from_hooks(
    plugin: object, marked: dict[str, Callable[..., Any]], name: str, hook_name: str
) -> Callable[[], Any]:
    """Let pluggy check the implementations against the specifications."""
    for function in marked.values():
        _refuse_deferred(function)
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(plugin, name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise PluginError(_wrong_hook(marked, error)) from None
    if hook_name not in marked:
        raise PluginError(
            f"implements {', '.join(marked)}, but no {hook_signature(hook_name)}, "
            "which its entry point's group calls"
        )
    hook: Callable[[], Any] = getattr(manager.hook, hook_name)
    return hook


def _wrong_hook(marked: dict[str, Callable[..., Any]], error: Exception) -> str:
    """Both sides of a hook that does not fit its specification."""
    for name, function in marked.items():
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


def _from_callable(plugin: Any, value: str, hook_name: str) -> Callable[[], Any]:
    if not callable(plugin):
        raise PluginError(f"{value} is neither callable nor has functions marked @hookimpl")
    _refuse_deferred(plugin)
    try:
        inspect.signature(plugin).bind()
    except (TypeError, ValueError):
        found = f"{getattr(plugin, '__qualname__', plugin)}{_signature_text(plugin)}"
        raise PluginError(f"is {found}, but is called as {hook_signature(hook_name)}") from None
    function: Callable[[], Any] = plugin
    return function


def _refuse_deferred(function: Callable[..., Any]) -> None:
    """Refuse what would return at once and do nothing."""
    name = getattr(function, "__qualname__", function)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise PluginError(f"{name} is declared async: it is called and not awaited; make it plain")
    if inspect.isgeneratorfunction(function):
        raise PluginError(f"{name} is a generator: calling it would run nothing; remove the yield")


def _signature_text(plugin: Callable[..., Any]) -> str:
    try:
        return str(inspect.signature(plugin))
    except (TypeError, ValueError):
        return "(…)"
