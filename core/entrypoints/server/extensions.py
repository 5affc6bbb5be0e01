"""What plugins add to the server, checked; a plugin's fault costs the plugin, not the server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import APIRouter

from runtime.core.engine.stats import FinishedRequest, StatLogger
from runtime.core.engine.wire import EngineStats
from runtime.plugins.errors import PluginError
from runtime.plugins.manager import PluginManager, default_manager
from runtime.plugins.records import PluginRecord, PluginState, failure_text, one_line
from runtime.plugins.server_extension import ServerExtension

logger = logging.getLogger(__name__)

_METHODS = ("record_step", "record_prompt", "record_tokens", "record_finished")


def server_extensions(manager: PluginManager | None = None) -> list[ServerExtension]:
    """What each server plugin adds, in the order of their names.

    Raises:
        PluginError: one that VLLM_PLUGINS names failed; another one's failure is a warning.
    """
    manager = default_manager() if manager is None else manager
    found = []
    for record in manager.server():
        if record.state is not PluginState.FILTERED:
            extension = _extension(manager, record)
            if extension is not None:
                found.append(extension)
    return found


def _extension(manager: PluginManager, record: PluginRecord) -> ServerExtension | None:
    given = manager.load(record)
    if record.state is not PluginState.LOADED:
        return None
    extension = manager.attempt(record, lambda: _checked(given, record.name))
    if record.error is not None and record.named:
        raise PluginError(failure_text(record)) from record.error
    return extension


def _checked(given: object, name: str) -> ServerExtension | None:
    if given is None:
        return None
    if not isinstance(given, ServerExtension):
        raise PluginError(f"returned {given!r} where a ServerExtension is expected")
    for router in given.routers:
        if not isinstance(router, APIRouter):
            raise PluginError(f"its router {router!r} is no fastapi.APIRouter")
    for make in given.middleware:
        if not callable(make):
            raise PluginError(f"its middleware {make!r} cannot be called with an application")
    for one in given.stat_loggers:
        missing = [method for method in _METHODS if not callable(getattr(one, method, None))]
        if missing:
            raise PluginError(f"its stat logger {one!r} has no {missing[0]}()")
    loggers = tuple(GuardedStatLogger(one, name) for one in given.stat_loggers)
    return ServerExtension(given.routers, given.middleware, loggers)


class GuardedStatLogger:
    """A plugin's stat logger, until it raises: from then on nothing."""

    def __init__(self, inner: StatLogger, plugin: str) -> None:
        self._inner: StatLogger | None = inner
        self._plugin = plugin

    def record_step(self, stats: EngineStats) -> None:
        """A step is done."""
        self._call(lambda inner: inner.record_step(stats))

    def record_prompt(self, num_tokens: int, time_to_first_token: float) -> None:
        """A prompt was computed."""
        self._call(lambda inner: inner.record_prompt(num_tokens, time_to_first_token))

    def record_tokens(self, count: int, inter_token_seconds: Sequence[float]) -> None:
        """Tokens were generated."""
        self._call(lambda inner: inner.record_tokens(count, inter_token_seconds))

    def record_finished(self, request: FinishedRequest) -> None:
        """A request has ended."""
        self._call(lambda inner: inner.record_finished(request))

    def _call(self, tell: Callable[[StatLogger], Any]) -> None:
        if self._inner is None:
            return
        try:
            tell(self._inner)
        except Exception as error:
            self._inner = None
            logger.warning(
                "the stat logger of plugin %r failed: %s; going on without it",
                self._plugin,
                one_line(error),
            )
