"""The null platform, and ways on and off its device."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import torch

from runtime.platforms.null.platform import NullPlatform


@pytest.fixture
def null() -> NullPlatform:
    """A platform object; the device's state is the process's."""
    return NullPlatform()


@pytest.fixture
def no_garbage() -> None:
    """What earlier tests left is gone, and not freed while this one measures memory."""
    gc.collect()


@pytest.fixture
def device(null: NullPlatform) -> torch.device:
    """The torch device."""
    return null.devices.device()


@pytest.fixture
def upload(null: NullPlatform, device: torch.device) -> Callable[[torch.Tensor], torch.Tensor]:
    """A host tensor's copy on the device."""

    def copy(source: torch.Tensor) -> torch.Tensor:
        target = torch.empty(source.shape, dtype=source.dtype, device=device)
        null.memory.copy_to_device(source, target)
        return target

    return copy


@pytest.fixture
def download(null: NullPlatform) -> Callable[[torch.Tensor], torch.Tensor]:
    """A device tensor's copy on the host."""
    return null.memory.copy_to_host


@pytest.fixture(params=[True, False], ids=["inference_mode", "no_inference_mode"])
def mode(request: pytest.FixtureRequest) -> torch.inference_mode:
    """Composite ops reach the device whole in inference mode, and in parts outside it."""
    return torch.inference_mode(request.param)
