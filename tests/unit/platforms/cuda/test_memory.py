"""How much of a GPU the KV cache gets."""

import pytest

from runtime.core.platform.interface import MemoryInfo, MemoryUse
from runtime.platforms.cuda.memory import GRAPHS, cache_bytes

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
