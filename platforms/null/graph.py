"""Graph capture on the null device: the ops of a piece of work, recorded and run again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch._ops import OpOverload

from runtime.core.platform.interface import Graph
from runtime.core.platform.recording import RecordedCall, flat, record_call
from runtime.platforms.null.device import Block, null_device
from runtime.platforms.null.tensor import NullTensor
from runtime.platforms.null.traits import traits_of


class Recording:
    """The ops of one thread while it captures. It is the graph, too, once complete.

    Keeps the device memory of the work's intermediate tensors, as a graph's memory pool does.
    """

    def __init__(self) -> None:
        self._calls: list[RecordedCall] = []
        self._blocks: list[Block] = []

    def add(
        self,
        func: OpOverload,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        host_result: Any,
        result: Any,
    ) -> None:
        """Record an op that has just run.

        ``args`` and ``kwargs`` are host values, ``host_result`` the host's result and ``result``
        the same as null tensors. An op that only made a view is left out: the view stays valid.
        """
        writes = bool(traits_of(func).written)
        self._blocks += [item._block for item in flat(result) if isinstance(item, NullTensor)]
        call = record_call(func, args, kwargs, host_result, writes=writes)
        if call is not None:
            self._calls.append(call)

    def replay(self) -> None:
        """Run the recorded ops again on the same tensors, without the Python between them."""
        device = null_device()
        device.refuse_in_capture("replaying a graph", "runs outside the recording")
        device.count("replays")
        with torch.inference_mode():
            for call in self._calls:
                call.run()


class NullPieces:
    """Recordings, and what runs between them."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], None]] = []

    def replay(self) -> None:
        """All in their order."""
        for step in self.steps:
            step()


class NullGraphs:
    """Graph capture; see :class:`runtime.core.platform.interface.GraphRole`."""

    # As on a device that records without computing, so that nobody relies on the opposite.
    computes_while_capturing = False

    def capture(self, work: Callable[[], Any], beside: Graph | None = None) -> Recording:
        """Run ``work`` once and record it. Each graph has memory of its own.

        Raises RuntimeError where ``work`` waits for the device, copies between host and device,
        or captures in turn; nothing stays recorded then.
        """
        device = null_device()
        device.refuse_in_capture("capturing a graph", "is nested")
        recording = device.local.recording = Recording()
        try:
            work()
        finally:
            device.local.recording = None
        device.count("captures")
        return recording

    def capture_pieces(
        self, work: Callable[[Callable[..., None]], Any], beside: Graph | None = None
    ) -> NullPieces:
        """Run ``work`` once and record it but for what it does outside."""
        device = null_device()
        device.refuse_in_capture("capturing a graph", "is nested")
        pieces = NullPieces()

        def begin() -> None:
            recording = device.local.recording = Recording()
            pieces.steps.append(recording.replay)

        def outside(run: Callable[..., None], *tensors: torch.Tensor) -> None:
            device.local.recording = None
            run(*tensors)
            pieces.steps.append(partial(run, *tensors))
            begin()

        begin()
        try:
            work(outside)
        finally:
            device.local.recording = None
        device.count("captures")
        return pieces
