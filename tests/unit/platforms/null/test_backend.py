"""Registration with torch: late, once, and refused where the slot is taken."""

from __future__ import annotations

import subprocess
import sys
import threading

import torch

from runtime.platforms.null.backend import ensure_registered
from runtime.platforms.null.platform import NullPlatform


def _run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )


def test_registration_waits_for_the_first_use_of_the_devices():
    result = _run(
        "import torch\n"
        "from runtime.platforms.null.platform import NullPlatform\n"
        "p = NullPlatform(); p.capabilities; p.policy; p.memory; p.graphs\n"
        "print(torch._C._get_privateuse1_backend_name())\n"
        "p.devices\n"
        "print(torch._C._get_privateuse1_backend_name())\n"
    )
    assert result.stdout.split() == ["privateuseone", "null"], result.stderr


def test_a_taken_slot_is_a_clear_error():
    result = _run(
        "import torch\n"
        "torch.utils.rename_privateuse1_backend('other')\n"
        "from runtime.platforms.null.platform import NullPlatform\n"
        "NullPlatform().devices\n"
    )
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("runtime.core.errors.PlatformError: ")
    assert "PrivateUse1" in last
    assert "'other'" in last


def test_threads_may_register_together():
    result = _run(
        "import threading\n"
        "from runtime.platforms.null.platform import NullPlatform\n"
        "go = threading.Barrier(4); seen = []\n"
        "def use(): go.wait(); seen.append(NullPlatform().devices.device())\n"
        "ts = [threading.Thread(target=use) for _ in range(4)]\n"
        "[t.start() for t in ts]; [t.join() for t in ts]\n"
        "print(len(seen))\n"
    )
    assert result.stdout.strip() == "4", result.stderr


def test_host_work_goes_on_as_before():
    ensure_registered()
    ensure_registered()
    x = torch.ones(3, requires_grad=True)
    results = []

    def train():
        (x * 2).sum().backward()
        results.append(x.grad)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert torch.equal(results[0], torch.full((3,), 2.0))


def test_torch_waits_for_the_device_by_its_module():
    platform = NullPlatform()
    platform.devices.device()
    before = platform.counters
    torch.null.synchronize()
    assert (platform.counters - before).synchronizations == 1
