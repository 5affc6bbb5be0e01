"""From listening to the end: signals, draining, and an engine that dies.

::

    SIGTERM, SIGINT     new requests get 503; those that run get --shutdown-timeout seconds
    a second one        ends at once
    the engine died     answers are errors for a moment, so that clients and probes learn of it
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator

import uvicorn

from runtime.core.engine.async_llm import AsyncLLM
from runtime.core.entrypoints.server.listener import Listener
from runtime.core.entrypoints.server.traffic import ServingState, Traffic
from runtime.core.errors import EngineDeadError

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)
DEATH_GRACE_SECONDS = 2.0
"""How long a server without an engine answers 503."""
LAST_ANSWERS_SECONDS = 2
"""How long connections get to take the ends of their answers."""


class HttpServer(uvicorn.Server):
    """A uvicorn server that leaves signals to the lifecycle, and tells when it listens."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install nothing."""
        yield

    async def startup(self, sockets: object = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started:
            self._on_started()


class Lifecycle:
    """Runs one HTTP server over one engine until it is told to end or the engine dies."""

    def __init__(
        self,
        llm: AsyncLLM,
        server: HttpServer,
        traffic: Traffic,
        shutdown_timeout: float,
        *,
        insistent: bool = True,
    ) -> None:
        self._llm = llm
        self._server = server
        self._traffic = traffic
        self._shutdown_timeout = shutdown_timeout
        self._insistent = insistent
        self._ending: asyncio.Task[None] | None = None

    async def run(self, listener: Listener) -> None:
        """Serve until the end.

        Raises:
            ConfigError: another process has begun to listen on the address.
            EngineDeadError: the engine has died.
        """
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._on_signal, signal.Signals(number), listener)
        self._llm.on_death.append(self._on_death)
        self._llm.listen()
        try:
            await self._server.serve(sockets=[listener.socket])
        except OSError as error:
            raise listener.in_use() from error
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)
            if self._ending is not None:
                self._ending.cancel()
        self._llm.check_health()

    def _on_signal(self, number: signal.Signals, listener: Listener) -> None:
        if self._traffic.state is ServingState.SERVING:
            self._traffic.state = ServingState.DRAINING
            self._ending = asyncio.ensure_future(self._drain(number))
            return
        if not self._insistent:
            return
        logger.warning("%s again: ending at once", number.name)
        # Threads and connections may take as long as they like: nobody waits for them.
        listener.close()
        self._llm.shutdown(timeout=0.0)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(0)

    async def _drain(self, number: signal.Signals) -> None:
        running = self._traffic.in_flight
        logger.info(
            "%s: shutting down; %d requests are running%s",
            number.name,
            running,
            f" and get {self._shutdown_timeout:g} s" if running and self._shutdown_timeout else "",
        )
        if not await self._traffic.wait_until_idle(self._shutdown_timeout):
            logger.info("ending %d requests", self._traffic.in_flight)
        self._llm.abort_all()
        self._server.should_exit = True

    def _on_death(self, _error: EngineDeadError) -> None:
        self._ending = asyncio.ensure_future(self._mourn())

    async def _mourn(self) -> None:
        await asyncio.sleep(DEATH_GRACE_SECONDS)
        self._server.should_exit = True
