"""Collectives of two workers, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from runtime.core.errors import ConfigError
from runtime.core.platform.interface import Platform
from runtime.core.testing.group import CALLS, WORLD, Outcome, expected, run_group
from runtime.core.testing.session import conformance

Groups = Callable[[str], list[Outcome]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each dtype that the platform runs."""
    if "dtype" in metafunc.fixturenames:
        metafunc.parametrize("dtype", conformance(metafunc.config).platform.capabilities.dtypes)


@pytest.fixture(scope="module")
def groups(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Groups:
    """What the workers of a group get, which is started once for each dtype."""
    if not platform.capabilities.distributed:
        pytest.skip("the platform's capabilities say that it is not distributed")
    try:
        places = platform.policy.place_workers(WORLD, platform.devices.count())
    except ConfigError as error:
        pytest.skip(str(error))
    done: dict[str, list[Outcome]] = {}

    def run(dtype: str) -> list[Outcome]:
        if dtype not in done:
            folder = tmp_path_factory.mktemp("group")
            done[dtype] = run_group(platform, places, getattr(torch, dtype), folder)
        return done[dtype]

    return run


@pytest.mark.parametrize("collective", list(CALLS))
def test_collective(platform: Platform, groups: Groups, dtype: str, collective: str) -> None:
    """Gives every worker what it should."""
    wanted = expected(getattr(torch, dtype))[collective]
    for rank, outcome in enumerate(groups(dtype)):
        where = f"platform {platform.name}, {platform.communicator_class}, {collective}, {dtype}"
        error = outcome.errors.get(collective) or outcome.errors.get("group")
        got = outcome.tensors.get(collective)
        assert got is not None, f"{where}: worker {rank} got nothing: {error}"
        assert got.dtype == wanted.dtype, f"{where}: worker {rank} got {got.dtype}"
        assert torch.equal(got, wanted), (
            f"{where}: worker {rank} got {got.tolist()}, not {wanted.tolist()}"
        )


def test_barrier(platform: Platform, groups: Groups) -> None:
    """Nobody leaves a barrier before all have come, and the group ends well."""
    outcomes = groups(platform.capabilities.dtypes[0])
    where = f"platform {platform.name}, {platform.communicator_class}"
    for outcome in outcomes:
        error = outcome.errors.get("group")
        assert error is None, f"{where}: {error}"
    entered, left = (
        [float(outcome.tensors["barrier"][place]) for outcome in outcomes] for place in (0, 1)
    )
    assert min(left) >= max(entered), (
        f"{where}: a worker left the barrier {max(entered) - min(left):.3f} s before the last came"
    )
