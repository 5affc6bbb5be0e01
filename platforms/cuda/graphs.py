"""CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from runtime.core.platform.interface import Graph
from runtime.platforms.cuda.devices import refuse_in_capture


class CudaGraph:
    """A captured graph, and the pool of its intermediate tensors."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self.graph = torch.cuda.CUDAGraph()

    def begin(self) -> None:
        """Record what the current stream is given from now on."""
        self.graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")

    def end(self) -> None:
        """Until here."""
        self.graph.capture_end()

    def record(self, work: Callable[[], Any]) -> None:
        """Record a piece of work."""
        self.begin()
        try:
            work()
        finally:
            self.end()

    def replay(self) -> None:
        """Queue the captured work on the current stream."""
        self.graph.replay()


class CudaPieces:
    """Captured graphs, and what runs between them."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self._steps: list[Callable[[], None]] = []

    def record(self, work: Callable[[Callable[..., None]], Any]) -> None:
        """Record work that leaves the capture through its argument."""
        current = CudaGraph(self.pool)

        def outside(run: Callable[..., None], *tensors: torch.Tensor) -> None:
            nonlocal current
            current.end()
            self._steps.append(current.replay)
            # Should it fail, `finally` below has a capture to end.
            current = CudaGraph(self.pool)
            try:
                run(*tensors)
                self._steps.append(partial(run, *map(_borrowed, tensors)))
            finally:
                current.begin()

        current.begin()
        try:
            work(outside)
        finally:
            current.end()
        self._steps.append(current.replay)

    def replay(self) -> None:
        """Queue all on the current stream."""
        for step in self._steps:
            step()


def _borrowed(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without its hold on the memory, which the graphs' pool keeps."""
    storage = tensor.untyped_storage()
    borrowed = torch._C._construct_storage_from_data_pointer(
        storage.data_ptr(), tensor.device, storage.nbytes()
    )
    empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return empty.set_(borrowed, tensor.storage_offset(), tensor.size(), tensor.stride())


class CudaGraphs:
    """Graph capture; see :class:`runtime.core.platform.interface.GraphRole`."""

    computes_while_capturing = False

    def __init__(self) -> None:
        self._stream: torch.cuda.Stream | None = None
        """Captures cannot be on the default stream. One serves all: the libraries' workspaces
        are by stream."""

    def capture(self, work: Callable[[], Any], beside: Graph | None = None) -> CudaGraph:
        """Record ``work`` without running it on the device.

        Not by ``torch.cuda.graph``, which collects garbage and empties the allocator's cache for
        each graph: that is most of the time where there are many.
        """
        with self._side_stream():
            graph = CudaGraph(_pool_of(beside))
            graph.record(work)
        return graph

    def capture_pieces(
        self, work: Callable[[Callable[..., None]], Any], beside: Graph | None = None
    ) -> CudaPieces:
        """Record ``work`` but for what it does outside, which runs."""
        with self._side_stream():
            pieces = CudaPieces(_pool_of(beside))
            pieces.record(work)
        return pieces

    @contextmanager
    def _side_stream(self) -> Iterator[None]:
        refuse_in_capture("another capture")
        if self._stream is None:
            self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            yield
        torch.cuda.current_stream().wait_stream(self._stream)


def _pool_of(beside: Graph | None) -> Any:
    if isinstance(beside, (CudaGraph, CudaPieces)):
        return beside.pool
    return torch.cuda.graph_pool_handle()
