"""What every route of one server shares."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastapi import Request

from runtime.core.engine.front_end import SharedMetrics
from runtime.core.entrypoints.server.args import ServerArgs
from runtime.core.entrypoints.server.chat_template import read_chat_template
from runtime.core.entrypoints.server.errors import ApiError
from runtime.core.entrypoints.server.metrics import Metrics
from runtime.core.entrypoints.server.request_log import RequestLog
from runtime.core.entrypoints.server.traffic import Traffic
from runtime.core.errors import ConfigError
from runtime.core.reasoning.registry import REASONING_PARSERS
from runtime.core.tool_parsers.registry import TOOL_PARSERS

if TYPE_CHECKING:
    from runtime.core.engine.async_llm import AsyncLLM


@dataclass(frozen=True)
class ServerContext:
    """One engine behind one HTTP application. ``app.state.context`` holds it."""

    engine: AsyncLLM
    args: ServerArgs
    model_names: tuple[str, ...]
    """Names that requests may use; the first is in answers."""
    chat_template: str | None = None
    """Jinja text, or the name of one of the model's templates; None is the model's own."""
    request_log: RequestLog = field(default_factory=lambda: RequestLog(ServerArgs()))
    """The log of prompts and of outputs."""
    metrics: Metrics | SharedMetrics = field(default_factory=lambda: Metrics("", 1))
    """What ``/metrics`` shows. :meth:`create` has the engine tell it."""
    traffic: Traffic = field(default_factory=Traffic)
    """Requests in flight, and whether new ones are taken."""
    created: int = field(default_factory=lambda: int(time.time()))
    """Seconds since the Unix epoch."""

    @property
    def generation_defaults(self) -> Mapping[str, Any]:
        """The checkpoint's ``generation_config.json``: sampling values where a request has none."""
        return self.engine.config.model.generation

    def check_model(self, name: str | None) -> None:
        """Refuse a model that is not served; no name is any.

        Raises:
            ApiError: it is not.
        """
        if name is not None and name not in self.model_names:
            raise ApiError(404, f"the model {name!r:.200} does not exist", "model")

    @classmethod
    def create(
        cls, engine: AsyncLLM, args: ServerArgs, metrics: SharedMetrics | None = None
    ) -> ServerContext:
        """Check what the arguments name, and have the engine tell ``metrics``, or new ones.

        Raises:
            ConfigError: a parser or a template is not there, or one flag lacks another.
        """
        check_names(args)
        names = args.served_model_name or (engine.config.model.model,)
        counted = metrics or Metrics(names[0], engine.config.model.max_model_len)
        engine.stat_loggers.append(counted)
        return cls(
            engine,
            args,
            tuple(names),
            read_chat_template(args.chat_template),
            RequestLog(args),
            counted,
        )


def check_names(args: ServerArgs) -> None:
    """Refuse names that stand for nothing. General plugins must have been loaded.

    Raises:
        ConfigError: a parser or a template is not there, or one flag lacks another.
    """
    for flag, name, registry in (
        ("--tool-call-parser", args.tool_call_parser, TOOL_PARSERS),
        ("--reasoning-parser", args.reasoning_parser, REASONING_PARSERS),
    ):
        if name is not None and name not in registry.names():
            known = ", ".join(sorted(registry.names()))
            raise ConfigError(f"{flag} {name!r} is unknown; known: {known}")
    if args.enable_auto_tool_choice and args.tool_call_parser is None:
        raise ConfigError("--enable-auto-tool-choice needs --tool-call-parser")
    read_chat_template(args.chat_template)


def context_of(request: Request) -> ServerContext:
    """The context of the application that serves a request; a dependency of routes."""
    context: ServerContext = request.app.state.context
    return context
