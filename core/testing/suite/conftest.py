"""Fixtures of the suite: the platform of the run, and what its tests are made with."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

import pytest
import torch

from runtime.core.config.hf_config import HFConfig
from runtime.core.config.runtime import (
    CacheConfig,
    LoadConfig,
    ModelConfig,
    RuntimeConfig,
    SchedulerConfig,
    SchedulingPolicy,
)
from runtime.core.platform.interface import Platform
from runtime.core.testing.session import conformance


@pytest.fixture(scope="session")
def platform(request: pytest.FixtureRequest) -> Platform:
    """The platform under test."""
    return conformance(request.config).platform


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The run's seed of random inputs; a failure should quote it."""
    return conformance(request.config).seed


@pytest.fixture(scope="session")
def perf(request: pytest.FixtureRequest) -> bool:
    """Whether to measure times."""
    return conformance(request.config).perf


@pytest.fixture
def generator(seed: int) -> torch.Generator:
    """A host generator with the run's seed."""
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def device(platform: Platform) -> torch.device:
    """The platform's first device, made current."""
    platform.devices.activate(0)
    return platform.devices.device(0)


@pytest.fixture
def threads() -> Iterator[None]:
    """The number of torch's threads stays as it was."""
    number = torch.get_num_threads()
    yield
    torch.set_num_threads(number)


@pytest.fixture
def config(platform: Platform) -> RuntimeConfig:
    """A configuration of a small model on the platform."""
    return RuntimeConfig(
        platform=platform,
        model=ModelConfig(
            model="none",
            tokenizer=None,
            skip_tokenizer_init=True,
            hf=HFConfig({"hidden_size": 64}),
            generation=HFConfig({}),
            architecture="None",
            dtype=torch.float32,
            max_model_len=128,
            vocab_size=100,
            seed=0,
            enforce_eager=False,
            max_logprobs=20,
        ),
        load=LoadConfig("dummy", False),
        cache=CacheConfig(platform.capabilities.kv_block_size, False, None, "auto"),
        scheduler=SchedulerConfig(256, 4, SchedulingPolicy.FCFS, True),
        additional_config=MappingProxyType({platform.name: platform.policy.additional_config({})}),
    )
