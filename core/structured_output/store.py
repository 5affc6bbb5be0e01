"""Compiled grammars of an engine, made beside its steps and kept while there is room."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from runtime.core.structured_output.interface import (
    CompiledGrammar,
    StructuredOutputBackend,
)
from runtime.core.structured_output.params import Constraint
from runtime.core.structured_output.progress import GrammarProgress

MAX_BYTES = 512 * 2**20
"""Memory for grammars that no request may be using any more."""


class GrammarStore:
    """Compiles each constraint once, in a thread; drops those that were used longest ago."""

    def __init__(
        self, make_backend: Callable[[], StructuredOutputBackend], max_bytes: int = MAX_BYTES
    ) -> None:
        """``make_backend`` is called in the thread, with the first constraint."""
        self._make_backend = make_backend
        self._max_bytes = max_bytes
        self._backend: StructuredOutputBackend | None = None
        self._grammars: OrderedDict[Constraint, CompiledGrammar] = OrderedDict()
        self._lock = threading.Lock()
        self._compiling = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None

    def prepare(self, constraint: Constraint) -> Future[None]:
        """Compile a constraint in the thread; the future has its exception if it fails."""
        ready: Future[None] = Future()
        with self._lock:
            if constraint in self._grammars:
                ready.set_result(None)
                return ready
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="grammars")
        return self._thread.submit(self._compile_only, constraint)

    def begin(self, constraint: Constraint) -> GrammarProgress:
        """The beginning of an output; compiles first where the grammar has been dropped.

        Raises:
            Exception: whatever the backend raises.
        """
        matcher = self._compiled(constraint).matcher()
        assert self._backend is not None
        return GrammarProgress(matcher, self._backend.vocabulary.eos_token_ids)

    def shutdown(self) -> None:
        """End the thread, without what it has not begun."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _compile_only(self, constraint: Constraint) -> None:
        self._compiled(constraint)

    def _compiled(self, constraint: Constraint) -> CompiledGrammar:
        found = self._find(constraint)
        if found is not None:
            return found
        with self._compiling:
            found = self._find(constraint)
            if found is None:
                if self._backend is None:
                    self._backend = self._make_backend()
                found = self._backend.compile(constraint)
                self._keep(constraint, found)
            return found

    def _find(self, constraint: Constraint) -> CompiledGrammar | None:
        with self._lock:
            found = self._grammars.get(constraint)
            if found is not None:
                self._grammars.move_to_end(constraint)
            return found

    def _keep(self, constraint: Constraint, compiled: CompiledGrammar) -> None:
        with self._lock:
            self._grammars[constraint] = compiled
            while len(self._grammars) > 1 and self._total() > self._max_bytes:
                self._grammars.popitem(last=False)

    def _total(self) -> int:
        texts = sum(len(constraint.text) for constraint in self._grammars)
        return texts + sum(compiled.memory_bytes for compiled in self._grammars.values())
