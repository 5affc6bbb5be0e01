"""How the compiled kernel's decodes are divided, and which layers it computes."""

import dataclasses

import pytest
import torch

from runtime.core.testing.batches import Layer
from runtime.platforms.cuda import attention, hopper, split_kv
from runtime.platforms.cuda.hopper import HopperBackend
from runtime.platforms.triton import attention as triton_attention

GOOD = dataclasses.replace(Layer(32, 8, 128, dtype="bfloat16").spec, block_size=16)


@pytest.fixture
def kernels(monkeypatch):
    """All kernels are there."""
    for module in (split_kv, hopper, triton_attention):
        monkeypatch.setattr(module, "why_missing", lambda: None)
    monkeypatch.setattr(attention.torch.backends.cudnn, "is_available", lambda: True)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("dtype", torch.float32, "dtype torch.float32 is not bfloat16 or float16"),
        ("head_size", 72, "head size 72 is no multiple of 16 up to 256"),
        ("kv_cache_dtype", torch.int8, "the KV cache is torch.int8, not torch.bfloat16 or"),
    ],
)
def test_layers_that_it_does_not_compute(field, value, reason):
    assert split_kv.SplitKvBackend.reasons_against(GOOD) == []
    spec = dataclasses.replace(GOOD, **{field: value})
    assert sum(reason in r for r in split_kv.SplitKvBackend.reasons_against(spec)) >= 1


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("capability", "served"), [((8, 0), False), ((8, 9), True)])
def test_a_float8_cache_needs_a_device_that_converts_it(monkeypatch, capability, served):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    spec = dataclasses.replace(GOOD, kv_cache_dtype=torch.float8_e4m3fn)
    reasons = split_kv.SplitKvBackend.reasons_against(spec)
    assert reasons == ([] if served else ["torch.float8_e4m3fn needs compute capability 8.9"])
    assert HopperBackend.reasons_against(spec), "its prompts' kernel reads no float8"


@pytest.mark.parametrize("kv_heads", [1, 8, 600])
@pytest.mark.parametrize("group", [1, 7, 40])
def test_the_workspace_is_large_enough_for_every_batch(group, kv_heads):
    spec = dataclasses.replace(GOOD, num_heads=group * kv_heads, num_kv_heads=kv_heads)
    builder = object.__new__(split_kv.SplitKvMetadataBuilder)
    builder.spec, builder.device = spec, torch.device("cpu")
    left, counters = builder._workspace
    for requests in range(1, 600):
        splits = builder.splits(requests)
        if splits == 1:
            continue
        # As the kernel has it: blocks of one part, and what each part leaves.
        blocks = requests * kv_heads * -(-group // 16)
        assert counters.numel() >= blocks
        assert left.numel() >= blocks * splits * (min(group, 16) * spec.head_size + 32)


def test_few_requests_are_divided_and_many_are_not():
    assert split_kv.splits_of(1, 8) == 64
    assert split_kv.splits_of(64, 8) == 2
    assert split_kv.splits_of(66, 8) == split_kv.splits_of(500, 8) == 1
    assert split_kv.least_keys_of(1, 8) < split_kv.least_keys_of(64, 8)
