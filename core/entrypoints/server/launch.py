"""``runtime serve`` from its arguments to its exit status."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from types import FrameType

from runtime.core.config.args import EngineArgs
from runtime.core.engine.async_llm import AsyncLLM
from runtime.core.engine.resolved import load_general_plugins
from runtime.core.entrypoints.server.args import ServerArgs
from runtime.core.entrypoints.server.checks import check
from runtime.core.entrypoints.server.context import ServerContext
from runtime.core.entrypoints.server.extensions import server_extensions
from runtime.core.entrypoints.server.listener import Listener
from runtime.core.entrypoints.server.serving import run_loop, serve_http
from runtime.core.entrypoints.server.start_up_log import log_arguments, log_plugins, log_serving
from runtime.core.entrypoints.server.stats_line import StatsLine, log_interval
from runtime.core.entrypoints.server.supervisor import serve_in_processes
from runtime.core.errors import EngineDeadError
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
    death: EngineDeadError | None = None
    try:
        extensions = server_extensions()
        log_plugins()
        log_arguments(engine_args, args)
        if args.api_server_count == 1:
            _serve_in_one(engine_args, args, listener, extensions)
        else:
            serve_in_processes(engine_args, args, listener)
    except EngineDeadError as error:
        death = error
    finally:
        listener.close()
    if death is not None:
        # The last line, so that it is what a supervisor shows.
        print(f"runtime: error: {death}", file=sys.stderr, flush=True)
        return 1
    logger.info("shut down")
    return 0


def _serve_in_one(
    engine_args: EngineArgs,
    args: ServerArgs,
    listener: Listener,
    extensions: list[ServerExtension],
) -> None:
    with AsyncLLM.from_engine_args(engine_args) as llm:
        context = ServerContext.create(llm, args)

        async def work() -> None:
            async with contextlib.AsyncExitStack() as stack:
                if not args.disable_log_stats:
                    line = StatsLine()
                    llm.stat_loggers.append(line)
                    stack.callback(asyncio.create_task(line.run(log_interval())).cancel)
                await serve_http(
                    context,
                    listener,
                    extensions,
                    lambda: log_serving(context.model_names, listener),
                )

        run_loop(work())


def _end_loading(_number: int, _frame: FrameType | None) -> None:
    """End while the model loads; what was begun is cleaned up on the way out."""
    logger.info("SIGTERM: ending before the model is loaded")
    raise SystemExit(0)
