"""Devices and their memory: tensors, copies, accounting, seeds, and running out of memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from runtime.core.config.runtime import RuntimeConfig
from runtime.core.platform.interface import MemoryUse, Platform
from runtime.core.testing.tensors import to_device

MIB = 1 << 20


def test_devices(platform: Platform, device: torch.device) -> None:
    """There is a device of the platform's torch type, with a name."""
    assert platform.devices.count() >= 1, f"devices.count() is {platform.devices.count()}"
    assert device.type == platform.device_type, f"devices.device(0) is {device}"
    assert platform.devices.name(0), "devices.name(0) is empty"
    made = torch.empty(1, device=device)
    assert made.device.type == platform.device_type, f"a tensor on {device} is on {made.device}"
    platform.devices.synchronize(0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int64", "int32", "bool"])
def test_round_trip(platform: Platform, device: torch.device, dtype: str) -> None:
    """Copies to the device and back keep every value."""
    kind = getattr(torch, dtype)
    if kind.is_floating_point and dtype not in platform.capabilities.dtypes:
        pytest.skip(f"the platform does not run {dtype}")
    source = torch.arange(-6, 6).reshape(3, 4).to(kind)
    there = to_device(platform, source)
    assert there.device.type == platform.device_type
    back = platform.memory.copy_to_host(there)
    assert back.device == source.device, f"memory.copy_to_host gives a tensor on {back.device}"
    assert back.dtype == kind, f"memory.copy_to_host gives {back.dtype}"
    assert torch.equal(back, source), f"it went as {source}, it came back as {back}"


def test_views(platform: Platform, device: torch.device) -> None:
    """Copies reach parts and views of tensors."""
    there = torch.zeros(4, 4, device=device)
    platform.memory.copy_to_device(torch.ones(2, 2), there[1:3, 1:3])
    expected = torch.zeros(4, 4)
    expected[1:3, 1:3] = 1
    assert torch.equal(platform.memory.copy_to_host(there), expected)
    assert torch.equal(platform.memory.copy_to_host(there.T[2]), expected.T[2])


def test_other_shape(platform: Platform, device: torch.device) -> None:
    """A copy of another shape is refused."""
    target = torch.zeros(4, device=device)
    with pytest.raises(RuntimeError):
        platform.memory.copy_to_device(torch.ones(1), target)


def test_host_copy_is_its_own(platform: Platform, device: torch.device) -> None:
    """A host copy stays as it was when the device tensor changes."""
    there = torch.ones(3, device=device)
    back = platform.memory.copy_to_host(there)
    there.zero_()
    platform.devices.synchronize(0)
    assert torch.equal(back, torch.ones(3)), (
        "memory.copy_to_host gives an alias: it changes with the device tensor"
    )


def test_device_copy_is_its_own(platform: Platform, device: torch.device) -> None:
    """A device tensor stays as it was when its source changes later."""
    source = platform.memory.host_buffer((3,), torch.float32).fill_(1)
    there = to_device(platform, source)
    platform.devices.synchronize(0)
    source.zero_()
    assert torch.equal(platform.memory.copy_to_host(there), torch.ones(3)), (
        "memory.copy_to_device makes an alias: the tensor changes with its source"
    )


def test_host_buffer(platform: Platform, device: torch.device) -> None:
    """A host buffer is zeroed host memory to copy from, and page-locked where it is said."""
    buffer = platform.memory.host_buffer((2, 3), torch.int32)
    assert buffer.device == torch.empty(0).device, f"memory.host_buffer is on {buffer.device}"
    assert buffer.dtype == torch.int32
    assert buffer.shape == (2, 3)
    assert not buffer.any(), "memory.host_buffer is not zeroed"
    if platform.capabilities.pinned_memory:
        assert buffer.is_pinned(), "capabilities.pinned_memory, but a host buffer is not pinned"
    buffer.numpy()[1, 2] = 7
    assert platform.memory.copy_to_host(to_device(platform, buffer))[1, 2] == 7


def test_zeros(platform: Platform, device: torch.device) -> None:
    """Large zeroed tensors are zero, and can be written to."""
    shape, dtype = (2, 1000, 513), getattr(torch, platform.capabilities.dtypes[0])
    made = platform.memory.zeros(shape, dtype, 0)
    assert made.device.type == platform.device_type, f"memory.zeros is on {made.device}"
    assert (tuple(made.shape), made.dtype) == (shape, dtype)
    assert not platform.memory.copy_to_host(made).any(), "memory.zeros is not zeroed"
    made[1, 999] = 1
    assert platform.memory.copy_to_host(made).sum() == 513


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_compute(platform: Platform, device: torch.device, dtype: str) -> None:
    """Computes in the dtypes that it names."""
    if dtype not in platform.capabilities.dtypes:
        pytest.skip(f"the platform does not run {dtype}")
    kind = getattr(torch, dtype)
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    there = to_device(platform, x.to(kind))
    result = platform.memory.copy_to_host(torch.softmax(there @ there.mT, -1))
    assert result.dtype == kind
    expected = torch.softmax(x.double() @ x.double().mT, -1)
    torch.testing.assert_close(result.double(), expected, atol=0.05, rtol=0.05)


def test_memory_info(platform: Platform, device: torch.device) -> None:
    """Free memory is no more than there is."""
    info = platform.memory.info(0)
    assert 0 < info.free <= info.total, f"memory.info gives {info}"


def test_peak(platform: Platform, device: torch.device) -> None:
    """The peak counts memory that is no longer allocated, and forgets it at a reset."""
    memory = platform.memory
    memory.empty_cache()
    memory.reset_peak(0)
    before = memory.peak(0)
    block = torch.ones(64 * MIB, dtype=torch.uint8, device=device)
    platform.devices.synchronize(0)
    del block
    grown = memory.peak(0) - before
    assert grown >= 60 * MIB, f"memory.peak grew by {grown} bytes for a tensor of {64 * MIB}"
    memory.empty_cache()
    memory.reset_peak(0)
    after = memory.peak(0) - before
    assert after < grown, f"memory.reset_peak leaves the peak at {after} bytes of {grown}"


def test_kv_cache_bytes(
    platform: Platform,
    device: torch.device,
    config: RuntimeConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The KV cache gets no more than is wanted, nor than there is."""
    for name in platform.environment:
        monkeypatch.delenv(name, raising=False)
    total = platform.memory.info(0).total
    for wanted in (0, MIB, 100 * total):
        granted = platform.memory.kv_cache_bytes(config, MemoryUse(0, 0, wanted), 0)
        assert 0 <= granted <= min(wanted, total), (
            f"memory.kv_cache_bytes grants {granted} bytes of {wanted} wanted; there are {total}"
        )
    granted = platform.memory.kv_cache_bytes(config, MemoryUse(0, 0, MIB), 0)
    assert granted == MIB, f"memory.kv_cache_bytes grants {granted} bytes of {MIB} wanted"


def _draws(platform: Platform, device: torch.device) -> dict[str, Callable[[int], torch.Tensor]]:
    def default(seed: int) -> torch.Tensor:
        platform.devices.seed(seed)
        return platform.memory.copy_to_host(torch.rand(16, device=device))

    def own(seed: int) -> torch.Tensor:
        generator = platform.devices.generator(0).manual_seed(seed)
        noise = torch.empty(16, device=device).exponential_(generator=generator)
        return platform.memory.copy_to_host(noise)

    return {"devices.seed": default, "devices.generator": own}


def test_seeds(platform: Platform, device: torch.device) -> None:
    """The same seed gives the same numbers, another one others."""
    for name, draw in _draws(platform, device).items():
        first = draw(1)
        assert not torch.equal(first, draw(2)), f"{name}: two seeds give the same numbers"
        assert torch.equal(first, draw(1)), f"{name}: one seed gives two kinds of numbers"


def test_generators(platform: Platform, device: torch.device) -> None:
    """A generator of its own leaves the default one alone."""
    draws = _draws(platform, device)
    expected = draws["devices.seed"](3)
    platform.devices.seed(3)
    draws["devices.generator"](9)
    got = platform.memory.copy_to_host(torch.rand(16, device=device))
    assert torch.equal(got, expected), "drawing from devices.generator moves the default one"


def test_out_of_memory(platform: Platform, device: torch.device) -> None:
    """Running out of memory is recognised and survived."""
    with pytest.raises((RuntimeError, MemoryError)) as caught:
        torch.empty(1 << 60, dtype=torch.uint8, device=device)
    is_out_of_memory = platform.memory.is_out_of_memory
    assert is_out_of_memory(caught.value), (
        f"memory.is_out_of_memory does not recognise {type(caught.value).__name__}: {caught.value}"
    )
    other = RuntimeError("shapes differ")
    assert not is_out_of_memory(other), f"memory.is_out_of_memory takes {other!r} for one"
    assert platform.memory.copy_to_host(torch.ones(2, device=device).sum()).item() == 2
