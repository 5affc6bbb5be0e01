"""What the device counts, and how its memory fills."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from runtime.core.errors import ConfigError
from runtime.platforms.null.device import NullCounters, NullDevice

KIB = 1024


def _used(null) -> int:
    info = null.memory.info()
    return info.total - info.free


@pytest.mark.usefixtures("no_garbage")
def test_views_share_an_allocation_and_results_are_new(null, device):
    before, used = null.counters, _used(null)
    x = torch.zeros(KIB, dtype=torch.uint8, device=device)
    views = [x[1:], x.view(2, -1), x[:10][2:4], x.detach()]
    assert null.counters - before == NullCounters(allocations=1)
    assert _used(null) - used == KIB
    y = x + 1
    assert (null.counters - before).allocations == 2
    del x, y
    assert (null.counters - before).frees == 1
    assert _used(null) - used == KIB
    del views
    assert (null.counters - before).frees == 2
    assert _used(null) == used


@pytest.mark.usefixtures("no_garbage")
def test_peak_is_the_most_at_once_since_the_reset(null, device):
    used = _used(null)
    null.memory.reset_peak()
    assert null.memory.peak() == used
    for _ in range(3):
        x = torch.empty(3 * KIB, dtype=torch.uint8, device=device)
        del x
    kept = torch.empty(2 * KIB, dtype=torch.uint8, device=device)
    assert null.memory.peak() - used == 3 * KIB
    null.memory.reset_peak()
    assert null.memory.peak() - used == kept.nbytes


@pytest.mark.usefixtures("no_garbage")
def test_a_result_that_grows_its_out_tensor_is_accounted(null, device):
    used = _used(null)
    x = torch.ones(KIB, dtype=torch.uint8, device=device)
    out = torch.empty(0, dtype=torch.uint8, device=device)
    torch.add(x, x, out=out)
    assert _used(null) - used == 2 * KIB
    del x, out
    assert _used(null) == used


def test_copies_are_counted_with_their_bytes(null, device):
    target = torch.empty(10, dtype=torch.float32, device=device)
    before = null.counters
    null.memory.copy_to_device(torch.ones(10), target)
    null.memory.copy_to_host(target[:3])
    assert null.counters - before == NullCounters(
        copies_to_device=1, copies_to_host=1, bytes_to_device=40, bytes_to_host=12
    )


WAITING = {
    "synchronize": lambda null, x: null.devices.synchronize(),
    "item": lambda null, x: x[0].item(),
    "bool": lambda null, x: bool(x[0]),
    "int": lambda null, x: int(x[0]),
    "nonzero": lambda null, x: x.nonzero(),
    "where": lambda null, x: torch.where(x),
    "masked_select": lambda null, x: x.masked_select(x > 0),
    "mask index": lambda null, x: x[x > 0],
    "mask assign": lambda null, x: x.__setitem__(x > 0, x * 2),
    "unique": lambda null, x: torch.unique(x),
    "equal": lambda null, x: torch.equal(x, x),
    "repeat_interleave": lambda null, x: x.repeat_interleave(x),
    "split": lambda null, x: x[x[0] :],
}
FREE = {
    "arithmetic": lambda null, x: x * 2 + 1,
    "index": lambda null, x: x[x],
    "index assign": lambda null, x: x.__setitem__(x.clone(), x + 1),
    "mask fill": lambda null, x: x.__setitem__(x > 0, 1),
    "sort": lambda null, x: x.sort(),
    "where": lambda null, x: torch.where(x > 0, x, 0),
    "embedding": lambda null, x: F.embedding(x, x[:, None]),
}


@pytest.mark.parametrize("case", WAITING)
def test_what_makes_the_host_wait_is_counted_once(case, null, upload, mode):
    with mode:
        x = upload(torch.ones(4, dtype=torch.long))
        before = null.counters
        WAITING[case](null, x)
        assert (null.counters - before).synchronizations == 1


@pytest.mark.parametrize("case", FREE)
def test_other_ops_do_not_wait(case, null, upload, mode):
    with mode:
        x = upload(torch.ones(4, dtype=torch.long))
        before = null.counters
        FREE[case](null, x)
        after = null.counters - before
        assert after == NullCounters(allocations=after.allocations, frees=after.frees)


@pytest.mark.usefixtures("no_garbage")
def test_an_allocation_beyond_the_memory_is_refused_and_survived(null, device):
    used = _used(null)
    with pytest.raises(torch.OutOfMemoryError, match=r"null device.*bytes wanted") as caught:
        torch.zeros(null.memory.info().total + 1, dtype=torch.uint8, device=device)
    assert null.memory.is_out_of_memory(caught.value)
    assert not null.memory.is_out_of_memory(RuntimeError("another"))
    assert _used(null) == used
    assert torch.ones(3, device=device).sum().item() == 3


def test_an_ops_result_can_run_out_of_memory_too():
    device = NullDevice(total=100)
    kept = device.block(torch.UntypedStorage(60))
    with pytest.raises(torch.OutOfMemoryError, match="41 bytes wanted, 40 of 100 free"):
        device.block(torch.UntypedStorage(41))
    del kept
    assert device.used == 0
    assert device.block(torch.UntypedStorage(100)).nbytes == 100


def test_a_storage_is_one_block_as_long_as_it_is_held():
    device = NullDevice(total=100)
    storage = torch.UntypedStorage(60)
    block = device.block(storage)
    assert device.block(storage) is block
    assert device.snapshot() == NullCounters(allocations=1)


@pytest.mark.parametrize(("value", "code"), [("0.25", 0), ("much", 1)])
def test_the_memory_size_comes_from_the_environment(value, code):
    program = (
        "from runtime.platforms.null.platform import NullPlatform as P;"
        "print(P().memory.info().total)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={"VLLM_NULL_MEMORY": value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == code
    if code:
        assert f"{ConfigError.__name__}: VLLM_NULL_MEMORY='much'" in result.stderr
    else:
        assert int(result.stdout) == 2**28
