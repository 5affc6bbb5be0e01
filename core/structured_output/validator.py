"""Refuses constraints that cannot be served, before their requests are queued."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec

from runtime.core.errors import RequestError
from runtime.core.structured_output.backend import model_vocabulary
from runtime.core.structured_output.params import FIELD, Constraint, StructuredOutputs
from runtime.core.structured_output.registry import load_backend, qualified_name
from runtime.core.structured_output.trial_process import TrialError, TrialProcess

if TYPE_CHECKING:
    from runtime.core.config.runtime import RuntimeConfig
    from runtime.core.tokenizer.interface import Tokenizer

TRIAL_SECONDS = 10.0
TRIAL_BYTES = 2 * 2**30
_MOST_VERDICTS = 4096
_MOST_CHARS = 500
"""Of a compiler's words that a client is told."""


class StructuredOutputValidator:
    """Has each new constraint tried in a process of its own; remembers the answers.

    Safe to call from several threads. The first call takes seconds, since it starts the process.
    """

    def __init__(
        self,
        config: RuntimeConfig,
        tokenizer: Tokenizer | None,
        *,
        seconds: float = TRIAL_SECONDS,
        memory_bytes: int = TRIAL_BYTES,
    ) -> None:
        self._config = config
        self._tokenizer = tokenizer
        self._limits = {"seconds": seconds, "memory_bytes": int(memory_bytes)}
        self._lock = threading.Lock()
        self._trials: TrialProcess | None = None
        self._verdicts: OrderedDict[bytes, str | None] = OrderedDict()

    def check(self, wanted: StructuredOutputs) -> None:
        """Refuse what cannot be served.

        Raises:
            RequestError: there is no tokenizer or no backend, or the constraint does not compile,
                takes too long to, contradicts itself or would not be enforced.
        """
        constraint = wanted.constraint
        key = hashlib.sha256(msgspec.msgpack.encode(constraint)).digest()
        with self._lock:
            trials = self._trials = self._trials or self._make_trials()
            known = key in self._verdicts
            verdict = self._verdicts.get(key)
        if not known:
            verdict = self._try(trials, constraint)
            with self._lock:
                self._verdicts[key] = verdict
                while len(self._verdicts) > _MOST_VERDICTS:
                    self._verdicts.popitem(last=False)
        if verdict is not None:
            raise _refusal(f"{constraint.kind}: {verdict}")

    def shutdown(self) -> None:
        """End the process."""
        if self._trials is not None:
            self._trials.shutdown()

    def _make_trials(self) -> TrialProcess:
        if self._tokenizer is None:
            raise _refusal("needs a tokenizer (skip_tokenizer_init is set)")
        qualified = qualified_name(self._config.structured_outputs.backend)
        missing = load_backend(qualified).missing()
        if missing:
            raise _refusal(f"this engine cannot serve it: missing {missing}")
        vocabulary = model_vocabulary(self._config, self._tokenizer)
        if not vocabulary.eos_token_ids:
            raise _refusal("the model has no end-of-sequence token, so no output could end")
        return TrialProcess(
            qualified,
            vocabulary,
            seconds=self._limits["seconds"],
            memory_bytes=int(self._limits["memory_bytes"]),
        )

    def _try(self, trials: TrialProcess, constraint: Constraint) -> str | None:
        try:
            return trials.ask(constraint)
        except TrialError as error:
            # Not remembered: the machine may have been busy.
            raise _refusal(f"{constraint.kind}: {error}") from None


def _refusal(reason: str) -> RequestError:
    short = reason if len(reason) <= _MOST_CHARS else reason[:_MOST_CHARS] + "…"
    return RequestError(f"{FIELD}: {short}", FIELD)
