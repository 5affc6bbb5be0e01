"""The backends of compiled kernels with stand-ins for these: what they are given, step by step."""

from types import MappingProxyType, SimpleNamespace

import pytest
import torch

from runtime.core import ops
from runtime.core.config.hf_config import HFConfig
from runtime.core.config.runtime import (
    CacheConfig,
    LoadConfig,
    ModelConfig,
    RuntimeConfig,
    SchedulerConfig,
    SchedulingPolicy,
)
from runtime.core.testing.attention import Trial
from runtime.core.testing.batches import BATCHES, Layer, Piece
from runtime.platforms.cpu.platform import CpuPlatform
from runtime.platforms.cuda import hopper, split_kv

ROWS = hopper.ROWS


def reference(query, kv_cache, table, lengths, starts, scale, window, cap):
    return ops.paged_attention.definition.reference(
        query, kv_cache, table, lengths, starts, scale, window or None, cap or None
    )


def decode(query, kv_cache, table, lengths, out, left, counters, splits, least, *rest):
    """As ``paged_decode``, and its checks of what it is given."""
    requests, heads, size = query.shape
    kv_heads = kv_cache.shape[3]
    assert table.shape[0] == lengths.shape[0] == out.shape[0] == requests
    assert out.is_contiguous()
    assert least >= 1
    if splits > 1:
        blocks = requests * kv_heads * -(-heads // kv_heads // 16)
        assert left.dtype == torch.float32
        assert counters.dtype == torch.int32
        assert left.numel() >= blocks * splits * (min(16, heads // kv_heads) * size + 32)
        assert counters.numel() >= blocks
    starts = torch.arange(requests + 1, dtype=torch.int32)
    out.copy_(reference(query, kv_cache, table, lengths, starts, *rest))


def prefill(query, kv_cache, table, lengths, starts, tile_request, tile_first, out, *rest):
    """As ``paged_prefill``: the tiles' tokens alone are written."""
    wanted = reference(query, kv_cache, table, lengths, starts, *rest)
    for request, first in zip(tile_request.tolist(), tile_first.tolist(), strict=True):
        start, stop = int(starts[request]) + first, int(starts[request + 1])
        rows = slice(start, min(start + ROWS, stop))
        out[rows] = wanted[rows]


@pytest.fixture
def config(monkeypatch):
    operators = SimpleNamespace(
        paged_decode=SimpleNamespace(default=decode), paged_prefill=SimpleNamespace(default=prefill)
    )
    for module in (split_kv, hopper):
        monkeypatch.setattr(module, "operators", lambda: operators)
    hf = HFConfig({"hidden_size": 64})
    model = ModelConfig(
        *("none", None, True, hf, HFConfig({}), "None", torch.bfloat16, 128, 100, 0, False, 20)
    )
    return RuntimeConfig(
        platform=CpuPlatform(),
        model=model,
        load=LoadConfig("dummy", False),
        cache=CacheConfig(16, False, None, "auto"),
        scheduler=SchedulerConfig(256, 4, SchedulingPolicy.FCFS, True),
        additional_config=MappingProxyType({}),
    )


@pytest.mark.parametrize("window", [None, 9])
@pytest.mark.parametrize("batch", list(BATCHES))
def test_hopper_computes_ragged_batches(config, batch, window):
    requests = BATCHES[batch]
    layer = Layer(4, 2, 64, dtype="bfloat16", window=window)
    trial = Trial(config, hopper.HopperBackend, layer, [sum(pair) for pair in requests], 3)
    before = [Piece(r, 0, computed) for r, (computed, _) in enumerate(requests) if computed]
    if before:
        trial.step(before)
    pieces = [Piece(r, done, done + new) for r, (done, new) in enumerate(requests)]
    trial.compare(trial.step(pieces), batch)


@pytest.mark.parametrize("backend", [split_kv.SplitKvBackend, hopper.HopperBackend])
def test_decodes_beside_padding(config, backend):
    trial = Trial(config, backend, Layer(8, 2, 64, dtype="bfloat16"), [20, 20, 20], 5)
    for token in range(20):
        step = trial.step([Piece(r, token, token + 1) for r in range(3)], padding=token % 5)
        trial.compare(step.rows(0, 3), f"token {token}")


def test_a_workspace_stays_where_graphs_read_it(config):
    spec = Layer(8, 2, 64, dtype="bfloat16").spec
    builder = split_kv.SplitKvMetadataBuilder(config, spec, torch.device("cpu"))
    first, second = (tuple(x.data_ptr() for x in builder._workspace) for _ in range(2))
    assert first == second
