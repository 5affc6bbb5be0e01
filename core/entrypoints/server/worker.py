"""One of several processes that serve HTTP over one engine: what it does from its start on."""

from __future__ import annotations

import signal

from runtime.core.config.args import EngineArgs
from runtime.core.engine.async_llm import AsyncLLM
from runtime.core.engine.front_end import FrontEnd, SharedMetrics
from runtime.core.engine.process import end_with_parent
from runtime.core.engine.wire import EngineReady
from runtime.core.entrypoints.server.args import ServerArgs
from runtime.core.entrypoints.server.context import ServerContext
from runtime.core.entrypoints.server.extensions import server_extensions
from runtime.core.entrypoints.server.listener import Listener
from runtime.core.entrypoints.server.serving import run_loop, serve_http
from runtime.core.errors import EngineDeadError
from runtime.core.logging import show_server_log


def run_worker(
    engine_args: EngineArgs,
    args: ServerArgs,
    listener: Listener,
    folder: str,
    index: int,
    ready: EngineReady,
    engine_pid: int | None,
) -> None:
    """Serve until the supervisor says by SIGTERM to end, or is gone.

    The supervisor says what becomes of running requests: a terminal's SIGINT is for it alone, and a
    second SIGTERM, of whoever signals a whole group, says nothing new.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(folder)
    show_server_log(args.uvicorn_log_level, args.disable_access_log_for_endpoints)
    front_end = FrontEnd(folder, index, ready, engine_pid)
    extensions = server_extensions()
    with AsyncLLM.attached(engine_args, front_end) as llm:
        context = ServerContext.create(llm, args, SharedMetrics(front_end))
        try:
            run_loop(serve_http(context, listener, extensions, front_end.serving, insistent=False))
        except EngineDeadError as error:
            # The supervisor knows the cause, and has the last word.
            raise SystemExit(1) from error
