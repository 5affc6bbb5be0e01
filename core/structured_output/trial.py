"""The trial of a constraint, in a process of its own.

A schema or a grammar comes from a client, and compiling it may take for ever, fill the memory or
end the process. So each new one is compiled here first, where nothing but the trial is lost.

    python -m runtime.core.structured_output.trial DESCRIPTOR

serves trials over the socket of that number until its other end is closed.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import tempfile
from multiprocessing.connection import Connection

import msgspec
import numpy as np

from runtime.core.structured_output.interface import (
    CompiledGrammar,
    GrammarError,
    StructuredOutputBackend,
    Vocabulary,
)
from runtime.core.structured_output.params import Constraint
from runtime.core.structured_output.registry import load_backend

STEPS = 64
"""Tokens of an output that a trial makes."""


class TrialSetup(msgspec.Struct, frozen=True):
    """What the process is told once."""

    backend: str
    """The class: ``package.module:Class``."""
    token_bytes: list[bytes]
    size: int
    eos_token_ids: list[int]
    seconds: float
    """Time for one trial."""
    memory_bytes: int
    """Memory beyond what the process has when it is ready."""


def try_constraint(backend: StructuredOutputBackend, constraint: Constraint) -> str | None:
    """Compile a constraint and make some tokens of an output; why it is refused, or None."""
    try:
        compiled = backend.compile(constraint)
    except GrammarError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deep"
    except MemoryError:
        return "compiling it takes too much memory"
    return _walk(compiled, backend.vocabulary)


def _walk(compiled: CompiledGrammar, vocabulary: Vocabulary) -> str | None:
    """Follow the constraint by tokens that it allows, chosen at random but always the same."""
    matcher, chance = compiled.matcher(), random.Random(0)
    mask = np.zeros(vocabulary.mask_words, dtype=np.int32)
    ends = set(vocabulary.eos_token_ids)
    for step in range(STEPS):
        matcher.fill(mask)
        allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
        going_on = [token for token in allowed.tolist() if token not in ends]
        if not len(allowed):
            return f"no token of the model's vocabulary can follow after {step} tokens"
        if not going_on:
            return None
        if not matcher.accept(chance.choice(going_on)):
            return "the compiler contradicts itself: it refuses a token that it allows"
    return None


def serve(connection: Connection) -> None:
    """Answer trials: an empty message once ready, then a reason or None for each constraint."""
    setup = msgspec.msgpack.decode(connection.recv_bytes(), type=TrialSetup)
    vocabulary = Vocabulary(tuple(setup.token_bytes), setup.size, tuple(setup.eos_token_ids))
    backend = load_backend(setup.backend)(vocabulary)
    _limit_memory(setup.memory_bytes)
    # The default action ends the process, also from within compiled code.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 2)
        connection.send_bytes(b"")
        while True:
            try:
                request = connection.recv_bytes()
            except EOFError:
                return
            signal.setitimer(signal.ITIMER_REAL, setup.seconds)
            reason = try_constraint(backend, msgspec.msgpack.decode(request, type=Constraint))
            signal.setitimer(signal.ITIMER_REAL, 0)
            connection.send_bytes(msgspec.msgpack.encode(reason or _warning(printed.fileno())))


def _limit_memory(more: int) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 (no file of a disk)
        now = int(file.read().split()[0]) * page
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = now + more
    if hard == resource.RLIM_INFINITY or limit <= hard:
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _warning(descriptor: int) -> str | None:
    """The first warning since the last call."""
    sys.stderr.flush()
    text = os.pread(descriptor, 65536, 0).decode(errors="replace")
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    for line in text.splitlines():
        if "Warning" in line:
            return f"it would be enforced in part only: {line.partition('Warning')[2].strip(': ')}"
    return None


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
