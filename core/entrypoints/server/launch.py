"""``runtime serve`` from its arguments to its exit status."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import uvicorn
import uvloop

from runtime.core.config.args import EngineArgs
from runtime.core.engine.async_llm import AsyncLLM
from runtime.core.engine.llm_engine import load_general_plugins
from runtime.core.entrypoints.server.api_keys import api_keys
from runtime.core.entrypoints.server.app import build_app
from runtime.core.entrypoints.server.args import ServerArgs
from runtime.core.entrypoints.server.context import ServerContext, check_names
from runtime.core.entrypoints.server.extensions import server_extensions
from runtime.core.entrypoints.server.lifecycle import (
    LAST_ANSWERS_SECONDS,
    HttpServer,
    Lifecycle,
)
from runtime.core.entrypoints.server.listener import Listener
from runtime.core.entrypoints.server.start_up_log import (
    log_arguments,
    log_plugins,
    log_routes,
)
from runtime.core.entrypoints.server.stats_line import StatsLine, log_interval
from runtime.core.errors import ConfigError, EngineDeadError
from runtime.core.logging import set_up_logging, show_server_log
from runtime.plugins.server_extension import ServerExtension

logger = logging.getLogger(__name__)


def serve(engine_args: EngineArgs, args: ServerArgs) -> int:
    """Load a model and serve it until told to end; returns the exit status.

    The address is taken before the model is loaded, and listened on after it.

    Raises:
        RuntimeUserError: an argument, the platform or the checkpoint will not do.
    """
    set_up_logging(process="server")
    load_general_plugins()
    show_server_log(args.uvicorn_log_level, args.disable_access_log_for_endpoints)
    check(args)
    signal.signal(signal.SIGTERM, _end_loading)
    listener = Listener(args)
    try:
        extensions = server_extensions()
        log_plugins()
        log_arguments(engine_args, args)
        with AsyncLLM.from_engine_args(engine_args) as llm:
            context = ServerContext.create(llm, args)
            # What is there now stays: a collector that goes through it stops every request.
            gc.collect()
            gc.freeze()
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(_run(context, listener, extensions))
    except EngineDeadError as error:
        death: EngineDeadError | None = error
    else:
        death = None
    finally:
        listener.close()
    if death is not None:
        # The last line, so that it is what a supervisor shows.
        print(f"runtime: error: {death}", file=sys.stderr, flush=True)
        return 1
    logger.info("shut down")
    return 0


async def _run(
    context: ServerContext, listener: Listener, extensions: Sequence[ServerExtension]
) -> None:
    app = build_app(context, extensions)
    log_routes(app)
    context.engine.stat_loggers += [one for it in extensions for one in it.stat_loggers]

    def tell() -> None:
        names = ", ".join(context.model_names)
        logger.info("serving %s at %s", names, listener.url)

    server = HttpServer(uvicorn_config(app, context.args), tell)
    life = Lifecycle(context.engine, server, context.traffic, context.args.shutdown_timeout)
    async with contextlib.AsyncExitStack() as stack:
        if not context.args.disable_log_stats:
            line = StatsLine()
            context.engine.stat_loggers.append(line)
            stack.callback(asyncio.create_task(line.run(log_interval())).cancel)
        await life.run(listener)


def check(args: ServerArgs) -> None:
    """Refuse what would fail only after the model is loaded.

    Raises:
        ConfigError: a number is out of range, a name is unknown, or a file of TLS cannot be used.
    """
    check_names(args)
    api_keys(args.api_key)
    log_interval()
    for name in ("shutdown_timeout", "max_request_bytes"):
        if getattr(args, name) < 0:
            raise ConfigError(f"--{name.replace('_', '-')} {getattr(args, name)} is negative")
    if args.max_log_len is not None and args.max_log_len < 0:
        raise ConfigError(f"--max-log-len {args.max_log_len} is negative")
    if args.root_path and not args.root_path.startswith("/"):
        raise ConfigError(f"--root-path {args.root_path!r} must begin with /")
    if args.ssl_certfile is None:
        given = [name for name in ("ssl_keyfile", "ssl_ca_certs") if getattr(args, name)]
        if given:
            raise ConfigError(f"--{given[0].replace('_', '-')} needs --ssl-certfile")
        return
    if args.ssl_cert_reqs not in (0, 1, 2):
        raise ConfigError(f"--ssl-cert-reqs {args.ssl_cert_reqs} must be 0, 1 or 2")
    for name in ("ssl_certfile", "ssl_keyfile", "ssl_ca_certs"):
        path = getattr(args, name)
        if path is not None and not Path(path).is_file():
            raise ConfigError(f"--{name.replace('_', '-')} {path}: there is no such file")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            args.ssl_certfile, args.ssl_keyfile, password=lambda: ""
        )
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigError(
            f"--ssl-certfile {args.ssl_certfile} and --ssl-keyfile {args.ssl_keyfile} cannot be "
            f"used: {error}"
        ) from error


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


def _end_loading(_number: int, _frame: FrameType | None) -> None:
    """End while the model loads; what was begun is cleaned up on the way out."""
    logger.info("SIGTERM: ending before the model is loaded")
    raise SystemExit(0)
