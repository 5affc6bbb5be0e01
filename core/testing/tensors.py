"""Moving test data to a platform's device and back, by the platform's own copies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

import torch

from runtime.core.platform.interface import Platform


def to_device(platform: Platform, value: Any, index: int = 0) -> Any:
    """A host tensor's copy on the device; anything but a tensor as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    device = platform.devices.device(index)
    target = torch.empty(value.shape, dtype=value.dtype, device=device)
    platform.memory.copy_to_device(value, target)
    return target


def random_on(
    platform: Platform,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    generator: torch.Generator,
) -> torch.Tensor:
    """A device tensor of normal values, drawn on the host."""
    tensor: torch.Tensor = to_device(platform, torch.randn(shape, generator=generator).to(dtype))
    return tensor


def copies(values: Iterable[Any]) -> list[Any]:
    """Arguments with their tensors cloned."""
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


def widened(values: Iterable[Any]) -> list[Any]:
    """Clones of arguments, floating-point tensors in float64."""
    return [
        value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for value in copies(values)
    ]


def seconds(platform: Platform, work: Callable[[], object], runs: int = 15) -> float:
    """Median time of a piece of work, waiting for the device; two runs before do not count."""
    times = []
    for number in range(runs + 2):
        platform.devices.synchronize(0)
        started = time.perf_counter()
        work()
        platform.devices.synchronize(0)
        if number > 1:
            times.append(time.perf_counter() - started)
    return median(times)
