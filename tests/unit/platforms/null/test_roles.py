"""The memory and device roles of the null platform beyond the shared contract."""

from __future__ import annotations

import pytest
import torch

from runtime.core.platform.interface import MemoryUse
from runtime.platforms.null.roles import KV_FRACTION


def test_another_index_is_refused(null):
    with pytest.raises(RuntimeError, match="null:1"):
        null.devices.device(1)
    with pytest.raises(RuntimeError, match="null:1"):
        null.devices.activate(1)


def test_copies_go_from_host_to_device_and_back_only(null, device):
    here, there = torch.ones(2), torch.ones(2, device=device)
    with pytest.raises(RuntimeError, match="is on null:0, not on the host"):
        null.memory.copy_to_device(there, there)
    with pytest.raises(RuntimeError, match="this one is on cpu"):
        null.memory.copy_to_device(here, here)
    with pytest.raises(RuntimeError, match="this one is on cpu"):
        null.memory.copy_to_host(here)
    with pytest.raises(RuntimeError, match=r"shape \(2,\), target has \(1,\)"):
        null.memory.copy_to_device(here, there[:1])


def test_a_host_copy_is_not_changed_by_later_work(null, device):
    there = torch.ones(2, device=device)
    copy = null.memory.copy_to_host(there)
    there.zero_()
    assert torch.equal(copy, torch.ones(2))


@pytest.mark.usefixtures("no_garbage")
def test_the_kv_cache_gets_what_is_wanted_within_what_is_free(null):
    free = null.memory.info().free

    def granted(wanted: int, activations: int = 0) -> int:
        return null.memory.kv_cache_bytes(None, MemoryUse(0, activations, wanted))

    assert granted(1000) == 1000
    assert granted(10 * free) == int(KV_FRACTION * free)
    assert granted(10 * free, free // 2) == int(KV_FRACTION * (free - free // 2))
    assert granted(1000, 2 * free) == 0
