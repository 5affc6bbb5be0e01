"""CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from runtime.core.platform.interface import Graph
from runtime.platforms.cuda.devices import refuse_in_capture


class CudaGraph:
    """A captured graph, and the pool of its intermediate tensors."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self.graph = torch.cuda.CUDAGraph()

    def replay(self) -> None:
        """Queue the captured work on the current stream."""
        self.graph.replay()


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
        refuse_in_capture("another capture")
        pool = beside.pool if isinstance(beside, CudaGraph) else torch.cuda.graph_pool_handle()
        graph = CudaGraph(pool)
        if self._stream is None:
            self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            graph.graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                work()
            finally:
                graph.graph.capture_end()
        torch.cuda.current_stream().wait_stream(self._stream)
        return graph
