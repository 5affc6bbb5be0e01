"""A group of two workers in processes of their own, and what their collectives give."""

from __future__ import annotations

import pkgutil
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from runtime.core.distributed.communicator import Communicator
from runtime.core.distributed.processes import start_process
from runtime.core.platform.interface import Platform
from runtime.core.testing.tensors import to_device

WORLD = 2
BARRIER_DELAY = 0.5
"""Seconds by which worker 0 comes later to the barrier."""


@dataclass
class Outcome:
    """What one worker got."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    """Host copies of results, by collective."""
    errors: dict[str, str] = field(default_factory=dict)
    """Why there is none, by collective; ``group`` where the group was not joined or left."""


def contribution(rank: int, dtype: torch.dtype) -> torch.Tensor:
    """What a worker brings: [2, 3] small integers, which every dtype holds exactly."""
    return (torch.arange(6).reshape(2, 3) + 10 * rank + 1).to(dtype)


def expected(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """What every worker should get, by collective."""
    parts = [contribution(rank, dtype) for rank in range(WORLD)]
    return {
        "all_reduce": parts[0] + parts[1],
        "all_gather of columns": torch.cat(parts, dim=-1),
        "all_gather of rows": torch.cat(parts, dim=0),
        "broadcast of worker 0": parts[0],
        "broadcast of worker 1": parts[1],
    }


CALLS: Mapping[str, Callable[[Communicator, torch.Tensor], torch.Tensor]] = {
    "all_reduce": lambda group, own: group.all_reduce(own),
    "all_gather of columns": lambda group, own: group.all_gather(own),
    "all_gather of rows": lambda group, own: group.all_gather(own, dim=0),
    "broadcast of worker 0": lambda group, own: group.broadcast(own),
    "broadcast of worker 1": lambda group, own: group.broadcast(own, source=1),
}


def run_group(
    platform: Platform,
    places: Sequence[int],
    dtype: torch.dtype,
    folder: Path,
    timeout: float = 90.0,
) -> list[Outcome]:
    """All collectives in a group of two workers on the devices ``places``.

    A worker that fails, ends or hangs says so in its outcome; none is left running.
    """
    processes = [
        start_process(platform, _work, (platform, rank, place, dtype, folder))
        for rank, place in enumerate(places)
    ]
    end = time.monotonic() + timeout
    outcomes = []
    for rank, process in enumerate(processes):
        process.join(max(0.0, end - time.monotonic()))
        outcomes.append(_outcome(folder, rank, process.exitcode, timeout))
    for process in processes:
        if process.is_alive():
            process.kill()
            process.join()
    return outcomes


def _outcome(folder: Path, rank: int, exit_code: int | None, timeout: float) -> Outcome:
    path = folder / f"{rank}.pt"
    if exit_code == 0 and path.exists():
        tensors, errors = torch.load(path)
        return Outcome(tensors, errors)
    how = f"did not end in {timeout:g} s" if exit_code is None else f"ended with {exit_code}"
    return Outcome(errors={"group": f"worker {rank} {how}"})


def _work(platform: Platform, rank: int, place: int, dtype: torch.dtype, folder: Path) -> None:
    """What a worker does; its outcome goes to a file."""
    outcome = Outcome()
    try:
        _join(platform, rank, place, dtype, folder, outcome)
    except Exception:
        outcome.errors["group"] = _last_line()
    torch.save((outcome.tensors, outcome.errors), folder / f"{rank}.pt")


def _join(
    platform: Platform,
    rank: int,
    place: int,
    dtype: torch.dtype,
    folder: Path,
    outcome: Outcome,
) -> None:
    platform.devices.activate(place)
    communicator = pkgutil.resolve_name(platform.communicator_class)
    group: Communicator = communicator(platform, rank, WORLD, f"file://{folder / 'meeting'}")
    for name, call in CALLS.items():
        try:
            result = call(group, to_device(platform, contribution(rank, dtype), place))
            outcome.tensors[name] = platform.memory.copy_to_host(result)
        except Exception:
            outcome.errors[name] = _last_line()
    if rank == 0:
        time.sleep(BARRIER_DELAY)
    entered = time.monotonic()
    group.barrier()
    times = (entered, time.monotonic())
    outcome.tensors["barrier"] = torch.tensor(times, dtype=torch.float64)
    group.close()


def _last_line() -> str:
    """The exception being handled, in one line."""
    return traceback.format_exc().strip().splitlines()[-1]
