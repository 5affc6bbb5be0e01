"""llama.cpp, through the C API that llama-cpp-python binds: the least that can stand between."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import llama_cpp as lib
import numpy as np

from benchmarks.peers.drivers.common import Job, Stream, serve

_BATCH = 2048
"""Tokens of one decode call; the library cuts them into its own micro-batches."""
_ROUND = 256
"""A context's sizes are multiples of this."""

Entry = tuple[int, int, int, bool]
"""A token, its position, its sequence and whether its logits are wanted."""


class LlamaCpp:
    """A loaded model; a context for each shape of work."""

    def __init__(self, job: Job) -> None:
        lib.llama_backend_init()
        self._threads = job.threads
        path = job.options["model"].encode()
        self._model = lib.llama_model_load_from_file(path, lib.llama_model_default_params())
        if not self._model:
            raise RuntimeError(f"llama.cpp cannot load {job.options['model']}")
        self._vocab_size = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self._model))
        self._contexts: dict[tuple[int, int], object] = {}
        self._batch = lib.llama_batch_init(_BATCH, 0, 1)

    def stream(self, prompt: Sequence[int], output: int) -> Stream:
        """One sequence."""
        context = self._context(1, len(prompt) + output)
        start = time.perf_counter()
        tokens = [self._prefill(context, [prompt])[0]]
        first = time.perf_counter()
        for step in range(output - 1):
            tokens.append(self._decode(context, [(tokens[-1], len(prompt) + step, 0, True)])[0])
        return Stream(first - start, time.perf_counter() - first, tokens)

    def batch(self, prompts: Sequence[Sequence[int]], output: int) -> list[int]:
        """All sequences in one batch."""
        context = self._context(len(prompts), max(map(len, prompts)) + output)
        return self._continue(context, self._prefill(context, prompts), len(prompts[0]), output)

    def shared(self, prompts: Sequence[Sequence[int]], shared: int, output: int) -> list[int]:
        """The prefix once, its cells copied to every other sequence: the best case by hand."""
        context = self._context(len(prompts), len(prompts[0]) + output)
        self._prefill(context, [prompts[0][:shared]])
        memory = lib.llama_get_memory(context)
        for sequence in range(1, len(prompts)):
            lib.llama_memory_seq_cp(memory, 0, sequence, -1, -1)
        rest = [prompt[shared:] for prompt in prompts]
        tokens = self._prefill(context, rest, position=shared)
        return self._continue(context, tokens, len(prompts[0]), output)

    def _context(self, sequences: int, tokens: int) -> object:
        """An empty context for that many sequences of that many tokens."""
        each = -(-tokens // _ROUND) * _ROUND
        if (sequences, each) not in self._contexts:
            params = lib.llama_context_default_params()
            params.n_ctx = each * sequences
            params.n_batch = _BATCH
            params.n_seq_max = sequences
            params.n_threads = params.n_threads_batch = self._threads
            params.kv_unified = False
            context = lib.llama_init_from_model(self._model, params)
            if not context:
                raise RuntimeError(f"llama.cpp has no context of {sequences} x {each} tokens")
            self._contexts[sequences, each] = context
        context = self._contexts[sequences, each]
        lib.llama_memory_clear(lib.llama_get_memory(context), True)
        return context

    def _prefill(
        self, context: object, prompts: Sequence[Sequence[int]], position: int = 0
    ) -> list[int]:
        """Compute prompts, one a sequence; the most likely token after each."""
        entries = [
            (token, position + index, sequence, index == len(prompt) - 1)
            for sequence, prompt in enumerate(prompts)
            for index, token in enumerate(prompt)
        ]
        found: list[int] = []
        for begin in range(0, len(entries), _BATCH):
            found += self._decode(context, entries[begin : begin + _BATCH])
        return found

    def _continue(
        self, context: object, tokens: list[int], position: int, output: int
    ) -> list[int]:
        """Generate in all sequences; the number of tokens that each has."""
        for step in range(output - 1):
            tokens = self._decode(
                context, [(token, position + step, row, True) for row, token in enumerate(tokens)]
            )
        return [output] * len(tokens)

    def _decode(self, context: object, entries: Iterable[Entry]) -> list[int]:
        """One call; the most likely token where logits are wanted, in the order of the entries."""
        batch, wanted = self._batch, []
        batch.n_tokens = 0
        for token, position, sequence, logits in entries:
            row = batch.n_tokens
            batch.token[row] = token
            batch.pos[row] = position
            batch.n_seq_id[row] = 1
            batch.seq_id[row][0] = sequence
            batch.logits[row] = logits
            batch.n_tokens += 1
            if logits:
                wanted.append(row)
        status = lib.llama_decode(context, batch)
        if status != 0:
            raise RuntimeError(f"llama_decode returned {status}")
        shape = (self._vocab_size,)
        return [
            int(np.ctypeslib.as_array(lib.llama_get_logits_ith(context, row), shape).argmax())
            for row in wanted
        ]


if __name__ == "__main__":
    serve(LlamaCpp)
