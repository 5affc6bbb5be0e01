"""The other end of :mod:`runtime.core.structured_output.trial`: starts it, asks it, replaces it."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
import weakref
from multiprocessing.connection import Connection

import msgspec

from runtime.core.structured_output.interface import Vocabulary
from runtime.core.structured_output.params import Constraint
from runtime.core.structured_output.trial import TrialSetup

logger = logging.getLogger(__name__)

START_SECONDS = 120.0
_GRACE_SECONDS = 10.0
"""A process that is over its time ends itself; after this long it is ended from here."""


class TrialError(Exception):
    """A trial that gave no answer."""


class TrialProcess:
    """Tries constraints, one after the other; safe to call from several threads.

    The process starts with the first trial and ends with this object.
    """

    def __init__(
        self, backend: str, vocabulary: Vocabulary, *, seconds: float, memory_bytes: int
    ) -> None:
        self._setup = TrialSetup(
            backend,
            list(vocabulary.token_bytes),
            vocabulary.size,
            list(vocabulary.eos_token_ids),
            seconds,
            memory_bytes,
        )
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._finalizer: weakref.finalize[..., TrialProcess] | None = None

    def ask(self, constraint: Constraint) -> str | None:
        """Why a constraint is refused, or None.

        Raises:
            TrialError: the process did not answer: it was over its time or its memory, or cannot
                be started. The next call starts a new one.
        """
        with self._lock:
            connection = self._connection or self._start()
            limit = self._setup.seconds
            try:
                connection.send_bytes(msgspec.msgpack.encode(constraint))
                if connection.poll(limit + _GRACE_SECONDS):
                    return msgspec.msgpack.decode(connection.recv_bytes(), type=str | None)
            except (EOFError, OSError):
                pass
            self._end()
            raise TrialError(
                f"compiling it takes more than {limit:g} s or "
                f"{self._setup.memory_bytes / 2**30:g} GiB"
            )

    def shutdown(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _start(self) -> Connection:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "runtime.core.structured_output.trial"]
        with theirs:
            process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                # An interrupt from the terminal is for the engine, whose end ends this one.
                start_new_session=True,
            )
        connection = Connection(ours.detach())
        self._finalizer = weakref.finalize(self, _finish, process, connection)
        try:
            connection.send_bytes(msgspec.msgpack.encode(self._setup))
            if connection.poll(START_SECONDS):
                connection.recv_bytes()
                self._connection = connection
                return connection
        except (EOFError, OSError):
            pass
        self._end()
        raise TrialError("the process that compiles it cannot be started; its log says why")

    def _end(self) -> None:
        self._connection = None
        if self._finalizer is not None:
            self._finalizer()
            self._finalizer = None


def _finish(process: subprocess.Popen[bytes], connection: Connection) -> None:
    connection.close()
    process.kill()
    process.wait()
