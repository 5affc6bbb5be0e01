"""Graphs on the processor: the kernel calls of a step, run again without the Python between them.

While a graph is captured, the kernels' library keeps each call that it gets (``recorder.h``).
Torch ops in between are kept as Python calls, so that any model can be captured. A replay is one
call of the library for each run of kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from runtime.core.platform.interface import Graph
from runtime.core.platform.recording import RecordedCall, record_call, storage_of, tensors_in
from runtime.platforms.cpu.kernels import PACKAGE, operators, why_missing

_EMPTY = frozenset({torch.ops.aten.empty, torch.ops.aten.empty_like, torch.ops.aten.new_empty})
_LINE = 64
"""Bytes of a cache line: sizes are rounded up to it, so that more of them are equal."""


class IntermediateMemory:
    """Storage of a graph's intermediate tensors, used again within it once a tensor is gone.

    Graphs that are never replayed at the same time may share it.
    """

    def __init__(self) -> None:
        self._storages: list[torch.UntypedStorage] = []
        self._known: set[int] = set()

    def empty(self, like: torch.Tensor) -> torch.Tensor:
        """A tensor of that (meta) tensor's shape, strides and dtype."""
        size = max(1, -(-like.untyped_storage().nbytes() // _LINE)) * _LINE
        storage = self._free(size)
        if storage is None:
            storage = torch.empty(size, dtype=torch.uint8, device="cpu").untyped_storage()
            self._storages.append(storage)
            self._known.add(storage._cdata)
        empty = torch.empty(0, dtype=like.dtype, device="cpu")
        return empty.set_(storage, 0, like.size(), like.stride())

    def holds(self, storage: int) -> bool:
        """Whether a storage (see ``storage_of``) is one of these."""
        return storage in self._known

    def _free(self, size: int) -> torch.UntypedStorage | None:
        # One user is this list: no tensor has it then.
        fitting = (
            s
            for s in self._storages
            if size <= s.nbytes() <= 2 * size and torch._C._storage_Use_Count(s._cdata) == 1
        )
        return min(fitting, key=lambda s: s.nbytes(), default=None)


class _Recording:
    """A run of kernel calls that the library keeps."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._replay = operators().replay.default
        self._drop = operators().drop_recording.default

    def run(self) -> None:
        """All calls again."""
        self._replay(self._handle)

    def __del__(self) -> None:
        self._drop(self._handle)


class CpuGraph:
    """Kernel and torch calls in their order, and the memory that they use."""

    def __init__(self, memory: IntermediateMemory) -> None:
        self.memory = memory
        self.steps: list[_Recording | RecordedCall] = []
        self._kept: dict[int, torch.UntypedStorage] = {}

    def keep(self, values: Sequence[Any]) -> None:
        """Hold the memory of a kernel's arguments, which it knows by address."""
        for tensor in tensors_in(values):
            storage = storage_of(tensor)
            if storage not in self._kept and not self.memory.holds(storage):
                self._kept[storage] = tensor.untyped_storage()

    def replay(self) -> None:
        """Run the captured work again on the same tensors."""
        for step in self.steps:
            step.run()


def _only_looks(func: OpOverload) -> bool:
    """Whether an op gives views of its arguments and nothing else."""
    aliases = [value.alias_info for value in func._schema.returns]
    return bool(aliases) and all(a is not None and not a.is_write for a in aliases)


class _Capture(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every torch op of its thread, and sorts it into the graph."""

    def __init__(self, graph: CpuGraph) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = graph
        self._with_kernels = why_missing() is None
        self._recorded = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: torch would import its compiler, which takes a second or two, to be kept from it."""
        return False

    def __enter__(self) -> _Capture:
        super().__enter__()  # type: ignore[no-untyped-call]
        self._begin()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end()
        super().__exit__(*exception)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func.namespace == PACKAGE:
            self.graph.keep(args)
            self._recorded = True
            return func(*args, **kwargs)
        if func.overloadpacket in _EMPTY and kwargs.get("pin_memory") is not True:
            return self.graph.memory.empty(func(*args, **{**kwargs, "device": "meta"}))
        if func is torch.ops.aten.copy_.default and self._with_kernels and _same(*args):
            operators().copy.default(args[1], args[0])
            self.graph.keep(args)
            self._recorded = True
            return args[0]
        if _only_looks(func):
            return func(*args, **kwargs)
        self._end()
        try:
            result = func(*args, **kwargs)
        finally:
            self._begin()
        call = record_call(func, args, kwargs, result, writes=func._schema.is_mutable)
        if call is not None:
            self.graph.steps.append(call)
        return result

    def _begin(self) -> None:
        if self._with_kernels:
            operators().begin_recording.default()
        self._recorded = False  # This mode sees that call, too.

    def _end(self) -> None:
        if not self._with_kernels:
            return
        recorded = self._recorded
        recording = _Recording(operators().end_recording.default())
        if recorded:
            self.graph.steps.append(recording)


def _same(to: torch.Tensor, source: torch.Tensor, *_: Any) -> bool:
    """Whether a copy moves bytes and no more."""
    return (
        to.dtype == source.dtype
        and to.shape == source.shape
        and to.is_contiguous()
        and source.is_contiguous()
        and to.device == source.device
    )


def capturing() -> bool:
    """Whether this thread captures a graph."""
    return any(isinstance(mode, _Capture) for mode in _get_current_dispatch_mode_stack())


def refuse_in_capture(what: str) -> None:
    """Raise RuntimeError where this thread captures a graph, in which that cannot be."""
    if capturing():
        raise RuntimeError(f"{what} cannot be captured in a graph")


class CpuGraphs:
    """Graph capture; see :class:`runtime.core.platform.interface.GraphRole`."""

    computes_while_capturing = True

    def capture(self, work: Callable[[], Any], beside: Graph | None = None) -> CpuGraph:
        """Run ``work`` once and record it.

        Raises RuntimeError where ``work`` waits for the device, copies between host and device,
        or captures in turn; nothing stays recorded then.
        """
        refuse_in_capture("another capture")
        memory = beside.memory if isinstance(beside, CpuGraph) else IntermediateMemory()
        graph = CpuGraph(memory)
        with _Capture(graph):
            work()
        return graph
