"""Sizes of caches and of pools."""

import pytest

from runtime.core.kv_cache.spec import (
    FullAttentionSpec,
    SlidingWindowSpec,
    StateSpec,
    group_layers,
    longest_that_fits,
    plan_layout,
    request_bytes,
)

FULL = FullAttentionSpec(16, 1000)
SLIDING = SlidingWindowSpec(16, 1000, window=64)


def test_layers_with_equal_specs_share_a_group():
    groups = group_layers({"a": FULL, "b": SLIDING, "c": FullAttentionSpec(16, 1000)})
    assert [group.layer_names for group in groups] == [("a", "c"), ("b",)]
    assert groups[0].block_bytes == 2000


@pytest.mark.parametrize(
    ("spec", "length", "step", "blocks"),
    [
        (FULL, 1, 512, 1),
        (FULL, 16, 512, 1),
        (FULL, 17, 512, 2),
        (SLIDING, 10_000, 1, 5),
        (SLIDING, 10_000, 100, 12),
        (SLIDING, 40, 1, 3),
        (StateSpec(10_000, 5), 10_000, 512, 1),
    ],
)
def test_most_blocks_of_one_request(spec, length, step, blocks):
    assert spec.max_blocks(length, step) == blocks


@pytest.mark.parametrize("step", [1, 5, 16, 64])
def test_a_sliding_window_never_holds_more_than_it_says(step):
    for computed in range(0, 400, step):
        first = SLIDING.first_needed(computed)
        last = -(-(computed + step) // 16)
        assert last - first <= SLIDING.max_blocks(400 + step, step)


def test_first_needed_is_the_block_of_the_oldest_visible_token():
    # The token at 64 sees 1..64 in a window of 64; the one at 79 sees 16..79.
    assert SLIDING.first_needed(64) == 0
    assert SLIDING.first_needed(78) == 0
    assert SLIDING.first_needed(79) == 1


def test_the_budget_holds_as_many_requests_in_every_pool():
    groups = group_layers({"a": FULL, "b": SLIDING})
    one = request_bytes(groups, 320, 16)
    layout = plan_layout(groups, 10 * one + 2000, 320, 16)
    assert layout.num_blocks == (201, 61)
    assert layout.total_bytes <= 10 * one + 2000
    assert longest_that_fits(layout, 320, 16) == 320


def test_the_longest_request_that_a_small_pool_holds():
    groups = group_layers({"a": FULL})
    layout = plan_layout(groups, 0, 4096, 512, override=3)
    assert longest_that_fits(layout, 4096, 512) == 48
    assert longest_that_fits(plan_layout(groups, 1500, 4096, 512), 4096, 512) == 0
