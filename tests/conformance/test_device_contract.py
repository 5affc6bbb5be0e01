"""The platform contract, for every platform of this distribution that can run on this machine.

A platform is found as the engine finds it: by its entry point.
"""

from __future__ import annotations

import math
import multiprocessing
import operator
import pickle
import pkgutil
import subprocess
import sys
from importlib.metadata import entry_points

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
from runtime.core.platform.interface import (
    DeviceRole,
    GraphRole,
    MemoryRole,
    MemoryUse,
    Platform,
    PlatformPolicy,
)

MIB = 1 << 20

ENTRY_POINTS = {
    entry.name: entry
    for entry in entry_points(group="runtime.platform_plugins")
    if entry.value.startswith("runtime.platforms.")
}


@pytest.fixture(params=sorted(ENTRY_POINTS))
def platform(request) -> Platform:
    """A platform that can run here."""
    cls = pkgutil.resolve_name(ENTRY_POINTS[request.param].load()())
    probe = cls.probe()
    if not probe.available:
        pytest.skip(f"{request.param}: {probe.reason}")
    return cls()


@pytest.fixture
def device(platform) -> torch.device:
    """The platform's first device, made current."""
    platform.devices.activate(0)
    return platform.devices.device(0)


@pytest.fixture
def config(platform) -> RuntimeConfig:
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
        cache=CacheConfig(16, False, None, "auto"),
        scheduler=SchedulerConfig(256, 4, SchedulingPolicy.FCFS, True),
    )


def _upload(platform, device, source):
    target = torch.empty(source.shape, dtype=source.dtype, device=device)
    platform.memory.copy_to_device(source, target)
    return target


def test_the_built_in_platforms_are_there():
    assert {"cpu", "null"} <= ENTRY_POINTS.keys()


@pytest.mark.parametrize("name", sorted(ENTRY_POINTS))
def test_a_probe_says_why_and_imports_no_torch(name):
    program = (
        "import pkgutil, sys\n"
        "from importlib.metadata import entry_points\n"
        f"(e,) = {{*entry_points(group='runtime.platform_plugins', name={name!r})}}\n"
        "p = pkgutil.resolve_name(e.load()()).probe()\n"
        "print(p.available, p.score, p.reason, 'torch' in sys.modules, sep='|')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    available, score, reason, torch_there = result.stdout.strip().split("|")
    assert (available == "True") == (score != "None")
    assert reason
    assert torch_there == "False"
    if score != "None":
        assert int(score) >= 0


def test_it_is_named_as_its_entry_point(platform):
    assert platform.name in ENTRY_POINTS
    assert pkgutil.resolve_name(ENTRY_POINTS[platform.name].load()()) is type(platform)


def test_roles_are_whole(platform):
    assert isinstance(platform.devices, DeviceRole)
    assert isinstance(platform.memory, MemoryRole)
    assert isinstance(platform.policy, PlatformPolicy)
    assert platform.capabilities.graph_capture == isinstance(platform.graphs, GraphRole)


def test_capabilities_name_real_dtypes_and_block_sizes(platform):
    caps = platform.capabilities
    assert caps.dtypes
    assert all(getattr(torch, name).is_floating_point for name in caps.dtypes)
    assert caps.kv_block_sizes is None or caps.kv_block_size in caps.kv_block_sizes
    with pytest.raises(AttributeError):
        caps.dtypes = ()


def test_devices_are_of_the_platforms_type(platform, device):
    assert platform.devices.count() >= 1
    assert device.type == platform.device_type
    assert platform.devices.name(0)
    assert torch.empty(1, device=device).device.type == platform.device_type
    platform.devices.synchronize(0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int64", "int32", "bool"])
def test_copies_make_the_round_trip(platform, device, dtype):
    if dtype.startswith(("float", "bfloat")) and dtype not in platform.capabilities.dtypes:
        pytest.skip(f"{platform.name} does not run {dtype}")
    source = torch.arange(-6, 6).reshape(3, 4).to(getattr(torch, dtype))
    there = _upload(platform, device, source)
    assert there.device.type == platform.device_type
    back = platform.memory.copy_to_host(there)
    assert back.device.type == "cpu"
    assert torch.equal(back, source)


def test_copies_reach_parts_and_views(platform, device):
    there = torch.zeros(4, 4, device=device)
    platform.memory.copy_to_device(torch.ones(2, 2), there[1:3, 1:3])
    expected = torch.zeros(4, 4)
    expected[1:3, 1:3] = 1
    assert torch.equal(platform.memory.copy_to_host(there), expected)
    assert torch.equal(platform.memory.copy_to_host(there.T[2]), expected.T[2])


def test_a_copy_of_another_shape_is_refused(platform, device):
    with pytest.raises(RuntimeError):
        platform.memory.copy_to_device(torch.ones(1), torch.zeros(4, device=device))


def test_a_host_copy_stays_as_it_was(platform, device):
    there = torch.ones(3, device=device)
    back = platform.memory.copy_to_host(there)
    there.zero_()
    platform.devices.synchronize(0)
    assert torch.equal(back, torch.ones(3))


def test_a_host_buffer_is_zeroed_host_memory_to_copy_from(platform, device):
    buffer = platform.memory.host_buffer((2, 3), torch.int32)
    assert buffer.device.type == "cpu"
    assert buffer.dtype == torch.int32
    assert not buffer.any()
    buffer.numpy()[1, 2] = 7
    assert platform.memory.copy_to_host(_upload(platform, device, buffer))[1, 2] == 7


def test_every_dtype_computes(platform, device):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(8, 16, generator=generator)
    for name in platform.capabilities.dtypes:
        there = _upload(platform, device, x.to(getattr(torch, name)))
        result = platform.memory.copy_to_host(torch.softmax(there @ there.mT, -1))
        assert result.dtype == getattr(torch, name)
        expected = torch.softmax(x.double() @ x.double().mT, -1)
        torch.testing.assert_close(result.double(), expected, atol=0.05, rtol=0.05)


def test_memory_info_is_sane(platform, device):
    info = platform.memory.info(0)
    assert 0 < info.free <= info.total


def test_the_peak_sees_what_was_there_and_forgets_at_reset(platform, device):
    memory = platform.memory
    memory.empty_cache()
    memory.reset_peak(0)
    before = memory.peak(0)
    block = torch.ones(64 * MIB, dtype=torch.uint8, device=device)
    platform.devices.synchronize(0)
    del block
    grown = memory.peak(0) - before
    assert grown >= 60 * MIB
    memory.empty_cache()
    memory.reset_peak(0)
    assert memory.peak(0) - before < grown


def test_seeds_are_reproducible(platform, device):
    def default_draw(seed):
        platform.devices.seed(seed)
        return platform.memory.copy_to_host(torch.rand(16, device=device))

    def own_draw(seed):
        generator = platform.devices.generator(0).manual_seed(seed)
        noise = torch.empty(16, device=device).exponential_(generator=generator)
        return platform.memory.copy_to_host(noise)

    for draw in (default_draw, own_draw):
        first = draw(1)
        assert not torch.equal(first, draw(2))
        assert torch.equal(first, draw(1))


def test_a_generator_of_its_own_leaves_the_default_alone(platform, device):
    platform.devices.seed(3)
    expected = platform.memory.copy_to_host(torch.rand(4, device=device))
    platform.devices.seed(3)
    generator = platform.devices.generator(0).manual_seed(9)
    torch.empty(4, device=device).exponential_(generator=generator)
    assert torch.equal(platform.memory.copy_to_host(torch.rand(4, device=device)), expected)


def test_a_spawned_process_gets_the_same_platform(platform, device):
    platform.memory.info(0)
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        name, capabilities = pool.apply(operator.attrgetter("name", "capabilities"), (platform,))
    assert name == platform.name
    assert capabilities == platform.capabilities


def test_a_pickled_platform_carries_no_state(platform, device):
    platform.memory.info(0)
    twin = pickle.loads(pickle.dumps(platform))
    assert type(twin) is type(platform)
    assert vars(twin) == {}


def test_policies_are_pure(platform, config):
    policy = platform.policy
    before = repr(config)
    for ask in (
        lambda: dict(policy.config_overrides(config)),
        lambda: list(policy.op_priority("rms_norm")),
        lambda: list(policy.op_priority("an op that nobody knows")),
        lambda: list(policy.attention_backends()),
    ):
        assert ask() == ask()
    assert repr(config) == before
    assert all(name.count(":") == 1 for name in policy.attention_backends())


def test_the_kv_cache_gets_no_more_than_wanted_or_there_is(platform, device, config, monkeypatch):
    monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE", raising=False)
    total = platform.memory.info(0).total
    for wanted in (0, MIB, 100 * total):
        granted = platform.memory.kv_cache_bytes(config, MemoryUse(0, 0, wanted), 0)
        assert 0 <= granted <= min(wanted, total)
    assert platform.memory.kv_cache_bytes(config, MemoryUse(0, 0, MIB), 0) == MIB


def test_starting_a_worker_says_what_it_did(platform, config):
    threads = torch.get_num_threads()
    try:
        line = platform.start_worker(config, 0)
    finally:
        torch.set_num_threads(threads)
    assert line is None or "\n" not in line


def test_running_out_of_memory_is_recognised_and_survived(platform, device):
    with pytest.raises((RuntimeError, MemoryError)) as caught:
        torch.empty(1 << 60, dtype=torch.uint8, device=device)
    assert platform.memory.is_out_of_memory(caught.value)
    assert not platform.memory.is_out_of_memory(RuntimeError("shapes differ"))
    assert platform.memory.copy_to_host(torch.ones(2, device=device).sum()).item() == 2


@pytest.fixture
def graphs(platform, device) -> GraphRole:
    """Graph capture, where the platform has it."""
    if platform.graphs is None:
        pytest.skip(f"{platform.name} captures no graphs")
    return platform.graphs


def test_a_replay_repeats_the_work_on_the_same_tensors(platform, device, graphs):
    x = torch.ones(4, device=device)
    y = torch.zeros(4, device=device)
    runs = []

    def work():
        runs.append(1)
        y.copy_((x * 2 + 1).cumsum(0))

    graph = graphs.capture(work)
    python_runs = len(runs)
    for value in (3.0, 5.0):
        platform.memory.copy_to_device(torch.full((4,), value), x)
        graph.replay()
        expected = torch.full((4,), value * 2 + 1).cumsum(0)
        assert torch.equal(platform.memory.copy_to_host(y), expected)
    assert len(runs) == python_runs


@pytest.mark.parametrize("what", ["synchronize", "copy_to_device", "copy_to_host"])
def test_a_capture_refuses_waits_and_copies(platform, device, graphs, what):
    x = torch.ones(2, device=device)
    forbidden = {
        "synchronize": lambda: platform.devices.synchronize(0),
        "copy_to_device": lambda: platform.memory.copy_to_device(torch.zeros(2), x),
        "copy_to_host": lambda: platform.memory.copy_to_host(x),
    }[what]
    with pytest.raises(RuntimeError):
        graphs.capture(forbidden)
    platform.devices.synchronize(0)
    assert math.isclose(platform.memory.copy_to_host(x).sum().item(), 2)
