"""The engine's own process: commands in, what each step gave out."""

from __future__ import annotations

import logging
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import zmq

from runtime.core.config.runtime import RuntimeConfig
from runtime.core.engine.core import EngineCore
from runtime.core.engine.wire import (
    AbortRequests,
    AddRequests,
    Command,
    EngineFailed,
    EngineReady,
    EngineStats,
    EngineStep,
    Report,
    Shutdown,
)
from runtime.core.errors import RuntimeUserError
from runtime.core.loader.open import open_checkpoint
from runtime.core.ops.registry import resolve_ops
from runtime.plugins.errors import PluginError
from runtime.plugins.records import one_line

logger = logging.getLogger(__name__)

COMMANDS = "commands"
REPORTS = "reports"
_LINGER_MS = 2000


def address(folder: str, name: str) -> str:
    """Where a socket of an engine lies: in a folder that only its user can enter."""
    return f"ipc://{folder}/{name}"


def run_engine(config: RuntimeConfig, folder: str, lower_max_model_len: bool) -> None:
    """Load the model and serve commands until told to end, or until the parent is gone.

    Signals are the parent's business: it decides what becomes of running requests.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_with_parent(folder)
    context = zmq.Context()
    commands, reports = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    commands.connect(address(folder, COMMANDS))
    reports.connect(address(folder, REPORTS))
    reports.setsockopt(zmq.SNDHWM, 0)
    reports.setsockopt(zmq.LINGER, _LINGER_MS)
    encoder = msgspec.msgpack.Encoder()

    def tell(report: Report) -> None:
        reports.send(encoder.encode(report))

    failed = False
    try:
        core = _load(config, lower_max_model_len)
        tell(EngineReady(core.config.model.max_model_len, core.longest_request, core.summary))
        EngineLoop(core, commands, tell).run()
        core.shutdown()
    except Exception as error:
        failed = True
        by_user = isinstance(error, (RuntimeUserError, PluginError))
        if not by_user:
            logger.exception("the engine failed")
        tell(EngineFailed(str(error) if by_user else one_line(error), by_user))
    finally:
        commands.close(0)
        reports.close(_LINGER_MS)
        context.term()
    if failed:
        raise SystemExit(1)


def _load(config: RuntimeConfig, lower_max_model_len: bool) -> EngineCore:
    checkpoint = open_checkpoint(config.model.model, config.load.load_format)
    config.platform.load_ops()
    resolve_ops(config.platform)
    return EngineCore(config, checkpoint, lower_max_model_len=lower_max_model_len)


def end_with_parent(folder: str) -> None:
    """End this process, even within a step, when the one that started it is gone."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        shutil.rmtree(Path(folder), ignore_errors=True)
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


class EngineLoop:
    """Reads commands between steps; waits for them where there is nothing to step."""

    def __init__(
        self, core: EngineCore, commands: zmq.Socket[bytes], tell: Callable[[Report], None]
    ) -> None:
        self._core = core
        self._commands = commands
        self._tell = tell
        self._decoder = msgspec.msgpack.Decoder(Command)
        self._open = True

    def run(self) -> None:
        """Until told to end."""
        while self._open:
            idle = not self._core.has_requests
            aborted = self._read_commands(wait=idle)
            if self._core.has_requests or self._core.scheduler.has_work_for_runner:
                outputs = self._core.step()
            elif aborted:
                outputs = []
            else:
                continue
            self._tell(EngineStep(outputs, engine_stats(self._core)))

    def _read_commands(self, *, wait: bool) -> bool:
        """Obey all commands that are there; returns whether any request was ended."""
        aborted = False
        if wait:
            self._commands.poll()
        while True:
            try:
                data = self._commands.recv(zmq.NOBLOCK)
            except zmq.Again:
                return aborted
            command = self._decoder.decode(data)
            match command:
                case AddRequests():
                    for request in command.requests:
                        self._core.add_request(request)
                case AbortRequests():
                    self._core.abort(command.request_ids)
                    aborted = True
                case Shutdown():
                    self._open = False
                    return aborted


def engine_stats(core: EngineCore) -> EngineStats:
    """The engine's state now."""
    scheduler = core.scheduler
    prefix = scheduler.kv_cache.stats
    return EngineStats(
        num_running=len(scheduler.running),
        num_waiting=core.num_waiting,
        kv_cache_usage=scheduler.kv_cache.usage,
        prefix_cache_queries=prefix.queries,
        prefix_cache_hits=prefix.hits,
        num_preemptions=scheduler.stats.num_preemptions,
    )
