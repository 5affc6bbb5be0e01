"""Host memory: limits, the KV cache's share, running out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from runtime.core.errors import ConfigError
from runtime.core.platform.interface import MemoryInfo, MemoryUse
from runtime.platforms.cpu.memory import KV_FRACTION, KV_VARIABLE, CpuMemory

GIB = 1 << 30


@pytest.fixture
def memory(monkeypatch) -> CpuMemory:
    """10 of 16 GiB are free."""
    monkeypatch.delenv(KV_VARIABLE, raising=False)
    monkeypatch.setattr(CpuMemory, "info", lambda self, index=0: MemoryInfo(10 * GIB, 16 * GIB))
    return CpuMemory()


def _granted(memory: CpuMemory, wanted: int, share: float | None = None) -> int:
    config = SimpleNamespace(cache=SimpleNamespace(memory_utilization=share))
    return memory.kv_cache_bytes(config, MemoryUse(0, GIB, wanted))


def test_a_share_counts_what_is_taken_already(memory):
    assert _granted(memory, 100 * GIB, 0.75) == (12 - 6 - 1) * GIB
    assert _granted(memory, 2 * GIB, 0.75) == 2 * GIB
    assert _granted(memory, 2 * GIB, 0.25) == 0


def test_a_control_groups_limit_is_the_memory_there_is(machine):
    root = machine(
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/cgroup.controllers": "memory\n",
            "sys/fs/cgroup/memory.max": "5000000\n",
            "sys/fs/cgroup/memory.current": "2000000\n",
        }
    )
    assert CpuMemory(root).info() == MemoryInfo(3000000, 5000000)
    machine({"sys/fs/cgroup/memory.max": str(1 << 59)})
    assert CpuMemory(root).info().total < 1 << 59


def test_the_kv_cache_gets_what_is_wanted_up_to_a_share(memory):
    assert _granted(memory, 1000) == 1000
    assert _granted(memory, 100 * GIB) == int(KV_FRACTION * 10 * GIB)


@pytest.mark.parametrize(("value", "size"), [("2", 2 * GIB), (" 0.5 ", GIB // 2), ("16", 16 * GIB)])
def test_the_user_says_how_large_the_kv_cache_is(memory, monkeypatch, value, size):
    monkeypatch.setenv(KV_VARIABLE, value)
    assert _granted(memory, 1000) == size


@pytest.mark.parametrize("value", ["much", "-1", "0", "nan", "inf", "17", "4GB"])
def test_a_kv_cache_size_that_cannot_be_is_refused(memory, monkeypatch, value):
    monkeypatch.setenv(KV_VARIABLE, value)
    with pytest.raises(ConfigError, match=f"{KV_VARIABLE}=.*{value}"):
        _granted(memory, 1000)


def test_the_peak_without_permission_to_reset_it(monkeypatch):
    memory = CpuMemory()

    def refuse(self, text):
        raise PermissionError(self)

    monkeypatch.setattr("pathlib.Path.write_text", refuse)
    memory.reset_peak()
    before = memory.peak()
    kept = torch.ones(1 << 28, dtype=torch.uint8)
    assert memory.peak() - before > kept.nbytes * 0.9


def test_running_out_of_memory_is_recognised():
    memory = CpuMemory()
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert memory.is_out_of_memory(caught.value)
    assert memory.is_out_of_memory(MemoryError())
    assert not memory.is_out_of_memory(RuntimeError("shape mismatch"))


def test_shapes_must_match():
    with pytest.raises(RuntimeError, match=r"shape \(1,\), target has \(2,\)"):
        CpuMemory().copy_to_device(torch.ones(1), torch.ones(2))
