"""One attention layer on one backend, run step by step and compared with the reference."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch

from runtime.core import ops
from runtime.core.attention.interface import AttentionBackend, BatchMetadata
from runtime.core.config.runtime import RuntimeConfig
from runtime.core.testing.batches import (
    Layer,
    Piece,
    batch_on,
    block_table,
    host_batch,
    refill,
)
from runtime.core.testing.comparison import Deviation, deviation
from runtime.core.testing.tensors import random_on, to_device


@dataclass(frozen=True)
class Step:
    """What a step gave, on the device, and the float64 host tensor that it should be."""

    got: torch.Tensor
    expected: torch.Tensor

    def rows(self, start: int, stop: int) -> Step:
        """Some of its tokens."""
        return Step(self.got[start:stop], self.expected[start:stop])

    def last_row(self) -> Step:
        """Its last token."""
        count = self.expected.shape[0]
        return self.rows(count - 1, count)


class Trial:
    """Requests of given lengths with random queries, keys and values, and a KV cache.

    What the backend keeps in its cache is its own affair: it writes it itself, step by step. The
    reference has a cache of the default layout on the host, which sees the same steps.
    """

    def __init__(
        self,
        config: RuntimeConfig,
        backend: type[AttentionBackend],
        layer: Layer,
        lengths: Sequence[int],
        seed: int,
    ) -> None:
        self.platform = config.platform
        self.backend = backend
        self.layer = layer
        self.lengths = list(lengths)
        self.seed = seed
        spec = self.spec = layer.spec
        config = dataclasses.replace(
            config,
            model=dataclasses.replace(config.model, dtype=spec.dtype),
            cache=dataclasses.replace(config.cache, block_size=spec.block_size),
        )
        self.builder = backend.builder_class(config, spec, self.platform.devices.device(0))
        self.impl = backend.impl_class(spec)
        generator = self.generator = torch.Generator().manual_seed(seed)
        # Two columns more than are needed: nobody may count on the table's width.
        width = -(-max(lengths) // spec.block_size) + 2
        self.table, blocks = block_table(len(lengths), width, generator)
        # Random, so that reading another slot than the right ones shows.
        shape = backend.kv_cache_shape(blocks, spec)
        self.cache = random_on(self.platform, shape, spec.kv_cache_dtype, generator)
        shape = (2, blocks, spec.block_size, spec.num_kv_heads, spec.head_size)
        self.host_cache = torch.randn(shape, generator=generator).to(spec.kv_cache_dtype)
        self.tokens = [self._draw(length) for length in lengths]

    @property
    def title(self) -> str:
        """For messages."""
        return (
            f"platform {self.platform.name}, attention backend {self.backend.name}, "
            f"{self.layer.name}"
        )

    def step(self, pieces: Sequence[Piece], padding: int = 0) -> Step:
        """Compute pieces of requests, and ``padding`` requests of one token behind them."""
        pieces = _in_order(pieces)
        batch = host_batch(pieces, self.table, self.spec.block_size, padding)
        inputs = self._inputs(pieces, padding)
        query, key, value = (to_device(self.platform, tensor) for tensor in inputs)
        metadata = self.builder.build(batch_on(self.platform, batch))
        got = self.impl.forward(query, key, value, self.cache, metadata)
        return Step(got, self._expected(inputs, batch))

    def capture(self, requests: int) -> Callable[[Sequence[Piece]], Step]:
        """Capture the step of so many single tokens; returns what replays it for given ones.

        Captured is a batch of padding alone, as by the model runner.
        """
        graphs = self.platform.graphs
        assert graphs is not None
        batch = host_batch([], self.table, self.spec.block_size, requests)
        buffers = batch_on(self.platform, batch)
        inputs = [to_device(self.platform, tensor) for tensor in self._inputs([], requests)]
        out = torch.zeros_like(inputs[0])
        query, key, value = inputs
        metadata = self.builder.build(buffers)

        def work() -> None:
            out.copy_(self.impl.forward(query, key, value, self.cache, metadata))

        work()
        graph = graphs.capture(work)

        def replay(pieces: Sequence[Piece]) -> Step:
            batch = host_batch(pieces, self.table, self.spec.block_size)
            own = self._inputs(pieces, 0)
            for source, target in zip(own, inputs, strict=True):
                self.platform.memory.copy_to_device(source, target)
            self.builder.build(refill(self.platform, buffers, batch))
            graph.replay()
            return Step(out, self._expected(own, batch))

        return replay

    def compare(self, step: Step, what: str) -> Deviation:
        """The deviation of a step, which must be acceptable."""
        where = f"{self.title}, {what}"
        tolerance = ops.paged_attention.definition.tolerance[self.spec.dtype]
        got, expected = step.got, step.expected
        assert got.dtype == self.spec.dtype, f"{where}: it gives {got.dtype}"
        assert got.shape == expected.shape, f"{where}: it gives shape {tuple(got.shape)}"
        found = deviation(self.platform.memory.copy_to_host(got), expected, tolerance)
        if not found.acceptable:
            pytest.fail(
                f"{where}: error {found.error:.3g} is {found.share:.3g} times what "
                f"rtol={tolerance.rtol:g}, atol={tolerance.atol:g} allow; "
                f"seed {self.seed} (--runtime-seed)"
            )
        return found

    def _draw(self, length: int) -> list[torch.Tensor]:
        """Query, key and value of some tokens, on the host."""
        spec = self.spec
        shapes = [
            (length, heads, spec.head_size)
            for heads in (spec.num_heads, spec.num_kv_heads, spec.num_kv_heads)
        ]
        return [torch.randn(s, generator=self.generator).to(spec.dtype) for s in shapes]

    def _inputs(self, pieces: Sequence[Piece], padding: int) -> list[torch.Tensor]:
        parts = [[t[p.start : p.stop] for t in self.tokens[p.request]] for p in pieces]
        columns = zip(*parts, self._draw(padding), strict=True)
        return [torch.cat(column) for column in columns]

    def _expected(self, inputs: Sequence[torch.Tensor], batch: BatchMetadata) -> torch.Tensor:
        query, key, value = inputs
        ops.write_kv_cache.definition.reference(key, value, self.host_cache, batch.slot_mapping)
        out: torch.Tensor = ops.paged_attention.definition.reference(
            query.double(),
            self.host_cache.double(),
            batch.block_table,
            batch.seq_lens,
            batch.query_start_loc,
            self.spec.scale,
            self.spec.sliding_window,
            self.spec.logits_soft_cap,
        )
        return out


def _in_order(pieces: Sequence[Piece]) -> list[Piece]:
    """Single tokens first, as every batch is."""
    return sorted(pieces, key=lambda piece: piece.stop - piece.start > 1)
