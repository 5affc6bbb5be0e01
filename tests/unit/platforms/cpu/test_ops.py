"""Which arguments the kernels take, and what the registry keeps where they are missing."""

from __future__ import annotations

import pytest
import torch

from runtime.core.ops.registry import resolve_ops
from runtime.platforms.cpu import kernels, ops
from runtime.platforms.cpu.platform import CpuPlatform

ROWS = torch.zeros(4, 8)
MANY = torch.zeros(ops.LINEAR_ROWS + 1, 8)


@pytest.mark.parametrize(
    ("arguments", "taken"),
    [
        ((ROWS, torch.zeros(3, 8), None), True),
        ((MANY[:-1], torch.zeros(3, 8), None), True),
        ((MANY, torch.zeros(3, 8), None), False),
        ((ROWS.double(), torch.zeros(3, 8).double(), None), False),
        ((ROWS, torch.zeros(3, 8).bfloat16(), None), False),
        ((torch.zeros(8, 4).T, torch.zeros(3, 8), None), False),
        ((ROWS, torch.zeros(8, 3).T, None), False),
    ],
)
def test_which_products_are_the_kernels(arguments, taken):
    assert ops.takes_linear(*arguments) == taken


def test_missing_kernels_leave_the_references_and_a_reason(monkeypatch):
    monkeypatch.setattr(ops, "why_missing", lambda: "they are not there")
    platform = CpuPlatform()
    platform.load_ops()
    try:
        rows = resolve_ops(platform, install=False).rows()
    finally:
        monkeypatch.undo()
        platform.load_ops()
    assert {row["provider"] for row in rows} == {"native"}
    reason = {"provider": "kernels", "reason": "they are not there"}
    named = [row for row in rows if platform.policy.op_priority(row["op"])]
    assert named
    assert all(reason in row["rejected"] for row in named)


@pytest.mark.skipif(kernels.why_missing() is not None, reason="the kernels are not installed")
def test_installed_kernels_serve_what_they_are_written_for():
    platform = CpuPlatform()
    platform.load_ops()
    rows = {row["op"]: row for row in resolve_ops(platform, install=False).rows()}
    assert {name: rows[name]["provider"] for name in ops.PROVIDERS} == dict.fromkeys(
        ops.PROVIDERS, "kernels"
    )
