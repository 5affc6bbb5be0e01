"""The processor as a device."""

from __future__ import annotations

import torch

from runtime.platforms.cpu.devices import CpuDevices
from runtime.platforms.cpu.threads import BIND_VARIABLE


def test_workers_share_the_device(monkeypatch):
    monkeypatch.setenv(BIND_VARIABLE, "0|1|2")
    devices = CpuDevices()
    assert devices.count() == 3
    assert devices.device(2) == torch.device("cpu")
    monkeypatch.setenv(BIND_VARIABLE, "auto")
    assert devices.count() == 1
