"""How much of a GPU the KV cache gets."""

import pytest

from runtime.core.errors import ConfigError
from runtime.core.platform.interface import MemoryInfo, MemoryUse
from runtime.platforms.cuda.memory import GRAPHS, cache_bytes, utilization

GIB = 1 << 30


@pytest.mark.parametrize(
    ("free", "activations", "wanted", "share", "expected"),
    [
        (84, 4, 1000, 0.9, 90 - 16 - 4 - GRAPHS // GIB),
        (84, 4, 10, 0.9, 10),
        (100, 0, 1000, 0.5, 50 - GRAPHS // GIB),
        (5, 0, 1000, 0.9, 0),
        (84, 80, 1000, 0.9, 0),
    ],
)
def test_cache_bytes(free, activations, wanted, share, expected):
    info = MemoryInfo(free * GIB, 100 * GIB)
    use = MemoryUse(16 * GIB, activations * GIB, wanted * GIB)
    assert cache_bytes(info, use, share) == expected * GIB


def test_utilization():
    assert utilization({}) == 0.9
    assert utilization({"VLLM_GPU_MEMORY_UTILIZATION": "0.5"}) == 0.5


@pytest.mark.parametrize("text", ["0", "1.1", "-1", "half", "nan"])
def test_a_share_that_is_none(text):
    with pytest.raises(ConfigError, match=f"VLLM_GPU_MEMORY_UTILIZATION='{text}'"):
        utilization({"VLLM_GPU_MEMORY_UTILIZATION": text})
