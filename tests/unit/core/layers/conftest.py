"""A configuration as far as layers look at it, on each platform of this repository."""

from types import SimpleNamespace

import pytest
import torch

from runtime.core.config.hf_config import HFConfig
from runtime.core.ops.registry import all_ops
from runtime.platforms.cpu.platform import CpuPlatform
from runtime.platforms.null.platform import NullPlatform


@pytest.fixture(params=[CpuPlatform, NullPlatform], ids=["cpu", "null"])
def platform(request, monkeypatch):
    """Its ops are the references, whatever an engine of this process has installed."""
    for op in all_ops():
        monkeypatch.setattr(op, "installed", {})
        monkeypatch.setattr(op, "_functions", {})
    return request.param()


@pytest.fixture
def put(platform):
    """Copy a host tensor to the platform's device."""

    def copy(host):
        target = torch.empty(host.shape, dtype=host.dtype, device=platform.devices.device(0))
        platform.memory.copy_to_device(host, target)
        return target

    return copy


@pytest.fixture
def config(platform):
    def make(dtype=torch.float32, max_model_len=64, **hf):
        return SimpleNamespace(
            platform=platform,
            model=SimpleNamespace(
                dtype=dtype, hf=HFConfig(hf), max_model_len=max_model_len, quantization=None
            ),
            device=lambda: platform.devices.device(0),
        )

    return make


@pytest.fixture
def fill(platform):
    """Fill a layer with random values and prepare it; returns them by name, on the host."""

    def make(layer):
        values = {}
        for name, view in layer.checkpoint_tensors().items():
            values[name] = torch.randn(view.shape).to(view.dtype)
            platform.memory.copy_to_device(values[name], view)
        if hasattr(layer, "process_weights_after_loading"):
            layer.process_weights_after_loading()
        return values

    return make
