"""Graph capture on the null device: the ops of a piece of work, recorded and run again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload

from runtime.platforms.null.device import Block, null_device
from runtime.platforms.null.tensor import NullTensor
from runtime.platforms.null.traits import traits_of


@dataclass(frozen=True)
class _Call:
    """An op with its host arguments, and where its new results must go on replay."""

    func: OpOverload
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    targets: tuple[tuple[int, torch.Tensor], ...]
    """Position among the op's results, and the host tensor that received it at capture."""

    def run(self) -> None:
        results = _flat(self.func(*self.args, **self.kwargs))
        for position, target in self.targets:
            target.copy_(results[position])


class Recording:
    """The ops of one thread while it captures. It is the graph, too, once complete.

    Keeps the device memory of the work's intermediate tensors, as a graph's memory pool does.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []
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
        written = bool(traits_of(func).written)
        inputs = {_storage(t) for t in _tensors([*args, *kwargs.values()])}
        targets = tuple(
            (position, item)
            for position, item in enumerate(_flat(host_result))
            if isinstance(item, torch.Tensor) and _storage(item) not in inputs
        )
        self._blocks += [item._block for item in _flat(result) if isinstance(item, NullTensor)]
        if written or targets:
            self._calls.append(_Call(func, args, kwargs, targets))

    def replay(self) -> None:
        """Run the recorded ops again on the same tensors, without the Python between them."""
        device = null_device()
        device.refuse_in_capture("replaying a graph", "runs outside the recording")
        device.count("replays")
        with torch.inference_mode():
            for call in self._calls:
                call.run()


class NullGraphs:
    """Graph capture; see :class:`runtime.core.platform.interface.GraphRole`."""

    def capture(self, work: Callable[[], Any]) -> Recording:
        """Run ``work`` once and record it.

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


def _flat(result: Any) -> Sequence[Any]:
    return result if isinstance(result, (list, tuple)) else (result,)


def _tensors(values: Sequence[Any]) -> list[torch.Tensor]:
    return [t for value in values for t in _flat(value) if isinstance(t, torch.Tensor)]


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
