"""What the backend of compute capability 9.0 says of layers and devices."""

import dataclasses

import pytest
import torch

from runtime.core.testing.batches import Layer
from runtime.platforms.cuda import hopper, split_kv

GOOD = dataclasses.replace(Layer(32, 8, 128, dtype="bfloat16").spec, block_size=16)


@pytest.fixture
def device(monkeypatch):
    """A device of a capability, with all kernels: ``device(9, 0)``."""
    for module in (hopper, split_kv):
        monkeypatch.setattr(module, "why_missing", lambda: None)

    def set_capability(*capability):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)

    set_capability(9, 0)
    return set_capability


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("dtype", torch.float32, "dtype torch.float32 is not bfloat16 or float16"),
        ("head_size", 80, "head size 80 is neither 64 nor 128"),
        ("block_size", 4, "block size 4 is no power of two from 8 on"),
        ("block_size", 24, "block size 24 is no power of two from 8 on"),
        ("kv_cache_dtype", torch.int8, "prompts need a KV cache of torch.bfloat16"),
    ],
)
def test_layers_that_it_does_not_compute(field, value, reason):
    assert hopper.HopperBackend.reasons_against(GOOD) == []
    spec = dataclasses.replace(GOOD, **{field: value})
    assert reason in hopper.HopperBackend.reasons_against(spec)


@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (10, 0)])
def test_other_devices(device, capability):
    device(*capability)
    major, minor = capability
    expected = [f"compute capability {major}.{minor} is not 9.0"]
    assert hopper.HopperBackend.reasons_against(GOOD) == expected


def test_missing_kernels_are_the_last_word(device, monkeypatch):
    device()
    for module in (hopper, split_kv):
        monkeypatch.setattr(module, "why_missing", lambda: "runtime-kernels-cuda is not installed")
    expected = ["runtime-kernels-cuda is not installed"]
    assert hopper.HopperBackend.reasons_against(GOOD) == expected
