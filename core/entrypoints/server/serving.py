"""One process that serves HTTP over an engine."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import uvicorn
import uvloop

from runtime.core.entrypoints.server.app import build_app
from runtime.core.entrypoints.server.args import ServerArgs
from runtime.core.entrypoints.server.context import ServerContext
from runtime.core.entrypoints.server.lifecycle import (
    LAST_ANSWERS_SECONDS,
    HttpServer,
    Lifecycle,
)
from runtime.core.entrypoints.server.listener import Listener
from runtime.core.entrypoints.server.start_up_log import log_routes
from runtime.plugins.server_extension import ServerExtension


async def serve_http(
    context: ServerContext,
    listener: Listener,
    extensions: Sequence[ServerExtension],
    on_started: Callable[[], None],
    *,
    insistent: bool = True,
) -> None:
    """Serve until told to end.

    Args:
        context: the engine, and what routes share.
        listener: where to listen.
        extensions: what plugins add.
        on_started: called when requests are taken.
        insistent: whether a second signal ends the process at once.

    Raises:
        ConfigError: another process has begun to listen on the address.
        EngineDeadError: the engine has died.
    """
    app = build_app(context, extensions)
    log_routes(app)
    context.engine.stat_loggers += [one for it in extensions for one in it.stat_loggers]
    server = HttpServer(uvicorn_config(app, context.args), on_started)
    life = Lifecycle(
        context.engine,
        server,
        context.traffic,
        context.args.shutdown_timeout,
        insistent=insistent,
    )
    await life.run(listener)


def run_loop(work: Coroutine[Any, Any, None]) -> None:
    """Run a process' event loop until ``work`` is done."""
    # What is there now stays: a collector that goes through it stops every request.
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


def uvicorn_config(app: object, args: ServerArgs) -> uvicorn.Config:
    """The HTTP server's settings. Its log goes where ours goes."""
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        log_config=None,
        log_level=args.uvicorn_log_level,
        access_log=not args.disable_uvicorn_access_log,
        lifespan="on",
        timeout_graceful_shutdown=LAST_ANSWERS_SECONDS,
        server_header=False,
        ssl_keyfile=args.ssl_keyfile,
        ssl_certfile=args.ssl_certfile,
        ssl_ca_certs=args.ssl_ca_certs,
        ssl_cert_reqs=args.ssl_cert_reqs,
        ssl_ciphers=args.ssl_ciphers,
    )
