"""The caller's end of an engine in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing.connection
import shutil
import signal
import tempfile
import time
import weakref
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Protocol

import msgspec
import zmq
import zmq.asyncio

from runtime.core.config.runtime import RuntimeConfig
from runtime.core.distributed.processes import start_process
from runtime.core.engine.process import COMMANDS, REPORTS, address, run_engine
from runtime.core.engine.wire import (
    Command,
    EngineFailed,
    EngineReady,
    EngineStep,
    Report,
    Shutdown,
)
from runtime.core.errors import ConfigError, EngineDeadError

logger = logging.getLogger(__name__)

_POLL_MS = 200
SHUTDOWN_SECONDS = 5.0
"""How long an engine gets to end by itself."""
_LAST_WORDS_SECONDS = 0.2


class EngineConnection(Protocol):
    """An engine as ``AsyncLLM`` sees it."""

    ready: EngineReady

    @property
    def pid(self) -> int | None:
        """The engine's process id."""

    def send(self, command: Command) -> None:
        """Hand a command over; never waits."""

    async def receive(self, take: Callable[[EngineStep], None]) -> EngineDeadError:
        """Give each step to ``take``; returns why there are no more."""

    def shutdown(self, timeout: float = SHUTDOWN_SECONDS) -> None:
        """Let go of the engine."""


class EngineClient:
    """Starts an engine process, sends it commands and receives what its steps give.

    Creating it waits until the model is loaded. :meth:`receive` then runs on an event loop until
    the engine ends.

    Raises:
        ConfigError: the engine refused its configuration.
        EngineDeadError: it ended while loading, for any other reason.
    """

    def __init__(self, config: RuntimeConfig, *, lower_max_model_len: bool) -> None:
        self._folder = tempfile.mkdtemp(prefix="runtime-")
        self._context = zmq.Context()
        self._commands = self._context.socket(zmq.PUSH)
        self._reports = self._context.socket(zmq.PULL)
        for socket, name in ((self._commands, COMMANDS), (self._reports, REPORTS)):
            # The peer is one process that answers for its own memory: nothing is dropped.
            socket.setsockopt(zmq.SNDHWM, 0)
            socket.setsockopt(zmq.RCVHWM, 0)
            socket.setsockopt(zmq.LINGER, 0)
            socket.bind(address(self._folder, name))
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)
        self._process = start_process(
            config.platform,
            run_engine,
            (config, self._folder, lower_max_model_len),
            name="engine",
            daemon=False,
        )
        self._finalizer = weakref.finalize(self, _end, self._process, self._context, self._folder)
        try:
            self.ready = self._wait_until_ready()
        except BaseException:
            self._finalizer()
            raise

    @property
    def pid(self) -> int | None:
        """The engine's process id."""
        return self._process.pid

    def send(self, command: Command) -> None:
        """Hand a command over; never waits."""
        self.send_encoded(self._encoder.encode(command))

    def send_encoded(self, command: bytes) -> None:
        """The same, of a command that somebody has encoded."""
        self._commands.send(command, zmq.NOBLOCK)

    async def receive(self, take: Callable[[EngineStep], None]) -> EngineDeadError:
        """Give each step to ``take``; returns why there are no more."""
        socket = zmq.asyncio.Socket.from_socket(self._reports)
        gone = asyncio.ensure_future(self._process_end())
        incoming: asyncio.Future[bytes] | None = None
        try:
            while True:
                incoming = asyncio.ensure_future(socket.recv())
                await asyncio.wait({incoming, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not incoming.done():
                    # Its last words may still be on their way.
                    await asyncio.wait({incoming}, timeout=_LAST_WORDS_SECONDS)
                if not incoming.done():
                    return EngineDeadError(self._how_it_ended())
                report = self._decoder.decode(incoming.result())
                if isinstance(report, EngineFailed):
                    return EngineDeadError(f"the engine failed: {report.cause}")
                if isinstance(report, EngineStep):
                    take(report)
        finally:
            gone.cancel()
            if incoming is not None:
                incoming.cancel()

    def shutdown(self, timeout: float = SHUTDOWN_SECONDS) -> None:
        """End the engine; within ``timeout`` seconds by itself, else by force."""
        if self._process.is_alive():
            with contextlib.suppress(zmq.ZMQError):
                self.send(Shutdown())
            self._process.join(timeout)
        self._finalizer()

    async def _process_end(self) -> None:
        """Return when the process has ended."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._process.sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._process.sentinel)

    def _wait_until_ready(self) -> EngineReady:
        while not self._reports.poll(_POLL_MS):
            if not self._process.is_alive() and not self._reports.poll(_POLL_MS):
                raise EngineDeadError(self._how_it_ended())
        report = self._decoder.decode(self._reports.recv())
        if isinstance(report, EngineFailed):
            if report.user_error:
                raise ConfigError(report.cause)
            raise EngineDeadError(f"the engine failed: {report.cause}")
        assert isinstance(report, EngineReady)
        return report

    def _how_it_ended(self) -> str:
        self._process.join(1)
        code = self._process.exitcode
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        else:
            how = f"ended with exit status {code}"
        return f"the engine's process (pid {self.pid}) {how}"


def _end(process: BaseProcess, context: zmq.Context[zmq.Socket[bytes]], folder: str) -> None:
    """End the process by force if it has not ended, and leave nothing behind."""
    deadline = time.monotonic() + 1.0
    while process.is_alive():
        process.kill()
        multiprocessing.connection.wait([process.sentinel], max(0.0, deadline - time.monotonic()))
        if time.monotonic() > deadline:
            break
    process.join(0)
    context.destroy(linger=0)
    shutil.rmtree(folder, ignore_errors=True)
