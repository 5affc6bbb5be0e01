"""What an operator wants to know of a start: plugins, arguments, routes."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI

from runtime.core.config.args import EngineArgs
from runtime.core.entrypoints.server.args import ServerArgs
from runtime.core.entrypoints.server.listener import Listener
from runtime.plugins.manager import default_manager

logger = logging.getLogger(__name__)

_SECRET = ("api_key",)


def log_plugins() -> None:
    """The plugins that are installed beside our own, and what became of each."""
    found = [record for record in default_manager().records if not record.built_in]
    for record in found:
        reason = f": {record.reason}" if record.reason else ""
        logger.info(
            "plugin %s (%s) of %s, %s%s",
            record.name,
            record.group,
            record.origin,
            record.state.value,
            reason,
        )
    if not found:
        logger.info("plugins: none but the built-in ones")


def log_arguments(*groups: EngineArgs | ServerArgs) -> None:
    """The arguments that differ from the defaults."""
    given = [text for group in groups for text in changed(group)]
    logger.info("arguments: %s", ", ".join(given))


def changed(args: EngineArgs | ServerArgs) -> list[str]:
    """``name=value`` of each field that is not its default. Keys are not shown."""
    found = []
    for field in dataclasses.fields(args):
        value: Any = getattr(args, field.name)
        if value != field.default:
            shown = "(hidden)" if field.name in _SECRET else repr(value)
            found.append(f"{field.name}={shown}")
    return found


def log_serving(model_names: Sequence[str], listener: Listener) -> None:
    """That requests are taken, and where."""
    logger.info("serving %s at %s", ", ".join(model_names), listener.url)


def log_routes(app: FastAPI) -> None:
    """The paths that are served."""
    paths = app.openapi()["paths"]
    served = [f"{','.join(sorted(ways)).upper()} {path}" for path, ways in paths.items()]
    logger.info("routes: %s", "; ".join(served))
