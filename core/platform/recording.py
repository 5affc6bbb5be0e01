"""Torch ops recorded with their host tensors, to be run again: what a host's graphs are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload


@dataclass(frozen=True)
class RecordedCall:
    """An op with its host arguments, and where its new results must go when it runs again."""

    func: OpOverload
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    targets: tuple[tuple[int, torch.Tensor], ...]
    """Position among the op's results, and the host tensor that received it at first."""

    def run(self) -> None:
        """Run the op again on the same tensors."""
        results = flat(self.func(*self.args, **self.kwargs))
        for position, target in self.targets:
            target.copy_(results[position])


def record_call(
    func: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    result: Any,
    *,
    writes: bool,
) -> RecordedCall | None:
    """A call that has just given ``result``; None where it only made views, which stay valid.

    ``writes`` says whether the op writes to an argument.
    """
    inputs = {storage_of(t) for t in tensors_in([*args, *kwargs.values()])}
    targets = tuple(
        (position, item)
        for position, item in enumerate(flat(result))
        if isinstance(item, torch.Tensor) and storage_of(item) not in inputs
    )
    return RecordedCall(func, args, kwargs, targets) if writes or targets else None


def flat(result: Any) -> Sequence[Any]:
    """An op's results as a sequence."""
    return result if isinstance(result, (list, tuple)) else (result,)


def tensors_in(values: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors among arguments, those in lists too."""
    return [t for value in values for t in flat(value) if isinstance(t, torch.Tensor)]


def storage_of(tensor: torch.Tensor) -> int:
    """What is the same for a tensor and its views."""
    return int(tensor.untyped_storage()._cdata)
