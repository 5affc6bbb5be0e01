"""Several processes that serve HTTP over one engine: ``--api-server-count``.

::

    supervisor ──► engine
        │  (hub: commands, outputs, counts)
        ├──► server-0 ─┐
        ├──► server-1 ─┼─ accept on one socket
        └──► …        ─┘
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing.connection
import os
import signal
import sys
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from typing import Any

from runtime.core.config.args import EngineArgs
from runtime.core.distributed.processes import start_process
from runtime.core.engine.client import EngineClient
from runtime.core.engine.hub import EngineHub
from runtime.core.engine.resolved import ResolvedEngine
from runtime.core.engine.stats import StatLogger
from runtime.core.entrypoints.server.args import ServerArgs
from runtime.core.entrypoints.server.lifecycle import (
    DEATH_GRACE_SECONDS,
    LAST_ANSWERS_SECONDS,
    SIGNALS,
)
from runtime.core.entrypoints.server.listener import Listener
from runtime.core.entrypoints.server.metrics import Metrics
from runtime.core.entrypoints.server.serving import run_loop
from runtime.core.entrypoints.server.start_up_log import log_serving
from runtime.core.entrypoints.server.stats_line import StatsLine, log_interval
from runtime.core.entrypoints.server.worker import run_worker
from runtime.core.errors import EngineDeadError

logger = logging.getLogger(__name__)

_MARGIN_SECONDS = 5.0
"""What a server may take longer than it says before it is ended by force."""


def serve_in_processes(engine_args: EngineArgs, args: ServerArgs, listener: Listener) -> None:
    """Load a model and serve it in several processes until told to end.

    Raises:
        RuntimeUserError: an argument, the platform or the checkpoint will not do.
        EngineDeadError: the engine, or one of the servers, has died.
    """
    engine = ResolvedEngine.from_args(engine_args)
    engine.tokenizer()  # what is wrong with it should not be learnt after minutes
    client = EngineClient(engine.config, lower_max_model_len=engine.lower_max_model_len)
    try:
        run_loop(Supervisor(engine, args, listener, client).run())
    finally:
        client.shutdown()


class Supervisor:
    """Starts the servers, tells them when to end, and notices when one dies."""

    def __init__(
        self, engine: ResolvedEngine, args: ServerArgs, listener: Listener, client: EngineClient
    ) -> None:
        self._engine = engine
        self._args = args
        self._listener = listener
        self._client = client
        self._names = args.served_model_name or (engine.config.model.model,)
        self._servers: list[BaseProcess] = []
        self._told_to_end = asyncio.Event()
        self._one_ended = asyncio.Event()

    async def run(self) -> None:
        """Serve until the end.

        Raises:
            EngineDeadError: the engine, or one of the servers, has died.
        """
        metrics = Metrics(self._names[0], self._client.ready.max_model_len)
        loggers: list[StatLogger] = [metrics]
        tasks: list[asyncio.Future[Any]] = []
        if not self._args.disable_log_stats:
            line = StatsLine()
            loggers.append(line)
            tasks.append(asyncio.ensure_future(line.run(log_interval())))
        hub = EngineHub(self._client, self._args.api_server_count, metrics.text, loggers)
        dying = asyncio.ensure_future(hub.run())
        tasks += [dying, asyncio.ensure_future(self._announce(hub))]
        loop = asyncio.get_running_loop()
        try:
            for number in SIGNALS:
                loop.add_signal_handler(number, self._on_signal, signal.Signals(number), hub)
            self._start(hub.folder)
            ends = [asyncio.ensure_future(it.wait()) for it in (self._told_to_end, self._one_ended)]
            tasks += ends
            await asyncio.wait({dying, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if dying.done():
                # They give their clients a moment to learn of it.
                await self._all_ended(DEATH_GRACE_SECONDS + LAST_ANSWERS_SECONDS)
                raise dying.result()
            if not self._told_to_end.is_set():
                raise EngineDeadError(self._who_died())
            self._tell_servers()
            await self._all_ended(self._args.shutdown_timeout + LAST_ANSWERS_SECONDS)
            if dying.done():
                raise dying.result()
        finally:
            for task in tasks:
                task.cancel()
            await self._end_servers()
            for number in SIGNALS:
                loop.remove_signal_handler(number)
            hub.close()

    async def _announce(self, hub: EngineHub) -> None:
        await hub.all_serve.wait()
        # From now on the port is the servers': when they are gone nobody listens.
        self._listener.socket.close()
        log_serving(self._names, self._listener)

    def _start(self, folder: str) -> None:
        loop = asyncio.get_running_loop()
        for index in range(self._args.api_server_count):
            process = start_process(
                self._engine.config.platform,
                run_worker,
                (
                    self._engine.args,
                    self._args,
                    self._listener,
                    folder,
                    index,
                    self._client.ready,
                    self._client.pid,
                ),
                name=f"server-{index}",
                daemon=False,
            )
            self._servers.append(process)
            loop.add_reader(process.sentinel, self._on_end, process)

    def _on_end(self, process: BaseProcess) -> None:
        asyncio.get_running_loop().remove_reader(process.sentinel)
        self._one_ended.set()

    def _on_signal(self, number: signal.Signals, hub: EngineHub) -> None:
        if not self._told_to_end.is_set():
            logger.info("%s: shutting down", number.name)
            self._told_to_end.set()
            return
        logger.warning("%s again: ending at once", number.name)
        for process in self._servers:
            process.kill()
        for process in self._servers:
            process.join(1)
        hub.close()
        self._listener.close()
        self._client.shutdown(timeout=0.0)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(0)

    def _tell_servers(self) -> None:
        for process in self._servers:
            process.terminate()

    async def _all_ended(self, seconds: float) -> bool:
        """Wait until no server is left; at most so long, and a margin."""
        end = time.monotonic() + seconds + _MARGIN_SECONDS
        while any(self._alive()):
            if time.monotonic() > end:
                return False
            await asyncio.sleep(0.02)
        return True

    async def _end_servers(self) -> None:
        """Leave no server behind."""
        self._tell_servers()
        if not await self._all_ended(LAST_ANSWERS_SECONDS):
            for process in self._alive():
                logger.warning("%s does not end: killing it", process.name)
                process.kill()
            await self._all_ended(0.0)
        for process in self._servers:
            with contextlib.suppress(ValueError):
                asyncio.get_running_loop().remove_reader(process.sentinel)

    def _alive(self) -> Iterator[BaseProcess]:
        return (process for process in self._servers if process.is_alive())

    def _who_died(self) -> str:
        for process in self._servers:
            if multiprocessing.connection.wait([process.sentinel], 0):
                process.join(1)
                code = process.exitcode or 0
                how = (
                    f"was killed by {signal.Signals(-code).name}"
                    if code < 0
                    else f"ended with exit status {code}"
                )
                return f"the process {process.name} (pid {process.pid}) {how}"
        raise AssertionError("a server ended and none has")
