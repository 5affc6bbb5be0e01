"""The platform object: its probe, roles, capabilities, policy, and how it reaches a process."""

from __future__ import annotations

import json
import multiprocessing
import operator
import pickle
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

from runtime.core.attention.select import candidate_backends
from runtime.core.config.runtime import RuntimeConfig
from runtime.core.errors import ConfigError
from runtime.core.ops.registry import all_ops
from runtime.core.platform.interface import (
    DeviceRole,
    GraphRole,
    MemoryRole,
    Platform,
    PlatformPolicy,
)
from runtime.core.platform.select import select_platform

PROBE = """
import json, sys
from runtime.core.platform.select import select_platform
probe = select_platform(sys.argv[1]).platform.probe()
print(json.dumps([probe.score, probe.reason, "torch" in sys.modules]))
"""


def test_probe(platform: Platform) -> None:
    """The probe says in one line why, and imports no torch."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, platform.name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"platform {platform.name}: its probe fails: {done.stderr}"
    score, reason, imports_torch = json.loads(done.stdout.splitlines()[-1])
    assert score is not None, f"platform {platform.name}: its probe finds no device: {reason}"
    assert score >= 0, f"platform {platform.name}: its probe's score {score} is negative"
    assert reason, f"platform {platform.name}: its probe gives no reason"
    assert "\n" not in reason, f"platform {platform.name}: its probe's reason has several lines"
    assert not imports_torch, f"platform {platform.name}: selecting and probing it imports torch"


def test_name(platform: Platform) -> None:
    """It is found by its own name."""
    found = select_platform(platform.name).platform
    assert type(found) is type(platform), f"{platform.name!r} names {type(found)}"


def test_roles(platform: Platform) -> None:
    """Its roles are whole."""
    assert isinstance(platform.devices, DeviceRole), "devices lacks methods of DeviceRole"
    assert isinstance(platform.memory, MemoryRole), "memory lacks methods of MemoryRole"
    assert isinstance(platform.policy, PlatformPolicy), "policy is no PlatformPolicy"
    captures = isinstance(platform.graphs, GraphRole)
    said = platform.capabilities.graph_capture
    assert said == captures, f"capabilities.graph_capture is {said}, graphs is {platform.graphs}"


def test_capabilities(platform: Platform) -> None:
    """Its capabilities name dtypes and block sizes that exist."""
    caps = platform.capabilities
    assert caps.dtypes, "capabilities.dtypes is empty"
    for name in caps.dtypes:
        dtype = getattr(torch, name, None)
        known = isinstance(dtype, torch.dtype) and dtype.is_floating_point
        assert known, f"capabilities.dtypes: {name!r} is no floating-point dtype of torch"
    for name in caps.kv_cache_dtypes:
        known = name == "auto" or isinstance(getattr(torch, name, None), torch.dtype)
        assert known, f"capabilities.kv_cache_dtypes: {name!r} is no dtype of torch"
    own, sizes = caps.kv_block_size, caps.kv_block_sizes
    assert own > 0, f"capabilities.kv_block_size is {own}"
    assert sizes is None or own in sizes, f"kv_block_size {own} is not one of {sizes}"


def test_policy_is_pure(platform: Platform, config: RuntimeConfig) -> None:
    """Its policy answers the same again and writes nothing."""
    policy = platform.policy
    before = repr(config)
    asks: dict[str, Callable[[], object]] = {
        "config_overrides": lambda: dict(policy.config_overrides(config)),
        "op_priority": lambda: [list(policy.op_priority(op.name)) for op in all_ops()],
        "op_priority of an unknown op": lambda: list(policy.op_priority("unknown to all")),
        "attention_backends": lambda: list(policy.attention_backends()),
        "linear_scheme": lambda: policy.linear_scheme(None),
        "capture_sizes": lambda: list(policy.capture_sizes(32)),
        "place_workers": lambda: list(policy.place_workers(1, 1)),
        "additional_config": lambda: dict(policy.additional_config({})),
    }
    for name, ask in asks.items():
        assert ask() == ask(), f"policy.{name} answers differently when asked again"
        assert repr(config) == before, f"policy.{name} changes the configuration"


def test_policy_is_sound(platform: Platform) -> None:
    """Its policy names what can be had."""
    policy = platform.policy
    assert candidate_backends(platform)
    sizes = list(policy.capture_sizes(12))
    assert sizes == sorted({*sizes}), f"policy.capture_sizes(12) is not in ascending order: {sizes}"
    assert all(0 < size <= 12 for size in sizes), f"policy.capture_sizes(12) has {sizes}"
    with pytest.raises(ConfigError):
        policy.additional_config({"a setting that nobody has": 1})


def test_pickle(platform: Platform) -> None:
    """It is pickled by its class and carries no state."""
    platform.memory.info(0)
    twin = pickle.loads(pickle.dumps(platform))
    assert type(twin) is type(platform)
    assert vars(twin) == {}, f"an unpickled platform has state: {vars(twin)}"


def test_spawned_process(platform: Platform, config: RuntimeConfig) -> None:
    """A spawned process gets the same platform and the same configuration."""
    platform.memory.info(0)
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        got = pool.apply(operator.attrgetter("platform.name", "platform.capabilities"), (config,))
        text = pool.apply(repr, (config,))
    assert got == (platform.name, platform.capabilities)
    assert text == repr(config)


def test_start_worker(platform: Platform, config: RuntimeConfig, threads: None) -> None:
    """Starting a worker is told in one line or not at all."""
    line = platform.start_worker(config, 0)
    assert line is None or "\n" not in line, f"start_worker gives several lines: {line!r}"


def test_descriptions(platform: Platform) -> None:
    """Its environment variables and kernel libraries are described."""
    for name, text in platform.environment.items():
        assert text.strip(), f"environment: {name} has no description"
    for library in platform.kernel_libraries:
        assert library.name, "kernel_libraries: a library has no name"
        assert library.built_for, f"kernel_libraries: {library.name} says not what it is built for"
