"""Capture and replay of device work."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from runtime.core.platform.interface import GraphRole, PiecewiseRole, Platform


@pytest.fixture
def graphs(platform: Platform, device: torch.device) -> GraphRole:
    """Graph capture, where the platform has it."""
    if platform.graphs is None:
        pytest.skip("the platform captures no graphs")
    return platform.graphs


def test_replay(platform: Platform, device: torch.device, graphs: GraphRole) -> None:
    """A replay does the captured work again on the same tensors, without its Python."""
    x = torch.ones(4, device=device)
    y = torch.zeros(4, device=device)
    runs = []

    def work() -> None:
        runs.append(1)
        y.copy_((x * 2 + 1).cumsum(0))

    graph = graphs.capture(work)
    python_runs = len(runs)
    for value in (3.0, 5.0):
        platform.memory.copy_to_device(torch.full((4,), value), x)
        graph.replay()
        expected = torch.full((4,), value * 2 + 1).cumsum(0)
        got = platform.memory.copy_to_host(y)
        assert torch.equal(got, expected), f"a replay gives {got}, the work gives {expected}"
    assert len(runs) == python_runs, "a replay runs the Python code again"


def test_two_graphs(platform: Platform, device: torch.device, graphs: GraphRole) -> None:
    """Two graphs can be replayed in any order."""
    x = torch.zeros(1, device=device)
    add = graphs.capture(lambda: x.add_(1))
    double = graphs.capture(lambda: x.mul_(2))
    x.zero_()
    for graph in (add, double, add, double):
        graph.replay()
    assert platform.memory.copy_to_host(x).item() == 6


@pytest.mark.parametrize("what", ["synchronize", "copy_to_device", "copy_to_host"])
def test_refusals(platform: Platform, device: torch.device, graphs: GraphRole, what: str) -> None:
    """A capture refuses waits and copies, and is survived."""
    x = torch.ones(2, device=device)
    forbidden = {
        "synchronize": lambda: platform.devices.synchronize(0),
        "copy_to_device": lambda: platform.memory.copy_to_device(torch.zeros(2), x),
        "copy_to_host": lambda: platform.memory.copy_to_host(x),
    }[what]
    with pytest.raises(RuntimeError):
        graphs.capture(forbidden)
    platform.devices.synchronize(0)
    assert platform.memory.copy_to_host(x).sum().item() == 2


def test_pieces(platform: Platform, device: torch.device, graphs: GraphRole) -> None:
    """Work outside of a capture runs in its place, on the tensors of that moment."""
    if not isinstance(graphs, PiecewiseRole):
        pytest.skip("the platform captures no pieces")
    x, y = torch.ones(4, device=device), torch.zeros(4, device=device)
    seen = []

    def look(out: torch.Tensor, value: torch.Tensor) -> None:
        seen.append(platform.memory.copy_to_host(value).tolist())
        out.copy_(value + len(seen))

    def work(outside: Callable[..., None]) -> None:
        doubled = x * 2
        out = torch.empty_like(doubled)
        outside(look, out, doubled)
        del doubled
        tripled = out * 3
        other = torch.empty_like(tripled)
        outside(look, other, tripled)
        y.copy_(other)

    graph = graphs.capture_pieces(work)
    for value in (5.0, 7.0):
        seen.clear()
        platform.memory.copy_to_device(torch.full((4,), value), x)
        graph.replay()
        assert seen == [[2 * value] * 4, [6 * value + 3] * 4]
        assert platform.memory.copy_to_host(y).tolist() == [6 * value + 5] * 4
