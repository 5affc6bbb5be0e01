"""Rows of requests: what the scheduler says is what they hold."""

import numpy as np
import pytest
import torch

from runtime.core.kv_cache.spec import (
    FullAttentionSpec,
    SlidingWindowSpec,
    group_layers,
    plan_layout,
)
from runtime.core.messages import ScheduledRequest, ScheduledUpdate, SchedulerOutput
from runtime.core.pooling.params import Pooling, PoolingType
from runtime.core.runner.input_batch import InputBatch
from runtime.core.sampling.params import SamplingParams


@pytest.fixture
def batch():
    specs = {"a": FullAttentionSpec(4, 1), "b": SlidingWindowSpec(4, 1, window=4)}
    layout = plan_layout(group_layers(specs), 0, 16, 8, override=8)
    return InputBatch(2, 16, layout)


def new(request_id, tokens, blocks, computed=0, pooling=None):
    return ScheduledRequest(
        request_id=request_id,
        token_ids=tokens,
        num_prompt_tokens=len(tokens),
        num_computed=computed,
        block_ids=blocks,
        params=SamplingParams(),
        stop_token_ids=[],
        bad_words_token_ids=[],
        prompt_logprobs_from=0,
        pooling=pooling,
    )


def step(new_requests=(), updates=(), removed=()):
    return SchedulerOutput(list(new_requests), list(updates), {}, list(removed))


def test_a_new_request_has_its_tokens_and_blocks(batch):
    batch.apply(step([new("r", [7, 8, 9], [[1], [2]], computed=2)]))
    state = batch.states["r"]
    assert batch.tokens_of(state).tolist() == [7, 8, 9]
    assert state.num_computed == 2
    assert [table[state.row, 0] for table in batch.block_tables] == [1, 2]


def test_updates_append_blocks_group_by_group(batch):
    batch.apply(step([new("r", [1] * 4, [[1], [2]])]))
    batch.apply(step(updates=[ScheduledUpdate("r", 4, [[3, 4], []])]))
    state = batch.states["r"]
    assert batch.block_tables[0][state.row, :3].tolist() == [1, 3, 4]
    assert batch.block_tables[1][state.row, :2].tolist() == [2, 0]
    assert state.num_computed == 4


def test_sampled_tokens_are_appended(batch):
    batch.apply(step([new("r", [5], [[1], [2]])]))
    state = batch.states["r"]
    batch.append_token(state, 6)
    assert batch.tokens_of(state).tolist() == [5, 6]
    assert state.num_output_tokens == 1


def test_a_row_is_used_again(batch):
    batch.apply(step([new("a", [1], [[1], [1]]), new("b", [2], [[2], [2]])]))
    freed = batch.states["a"].row
    batch.apply(step([new("c", [3, 4], [[3], [3]])], removed=["a", "unknown"]))
    assert batch.states["c"].row == freed
    assert set(batch.states) == {"b", "c"}
    assert np.array_equal(batch.tokens_of(batch.states["b"]), [2])


def test_a_request_that_is_preempted_and_resumed_in_one_step_is_new(batch):
    batch.apply(step([new("r", [1, 2], [[1], [1]])]))
    batch.apply(step([new("r", [1, 2, 3], [[5], [6]])], removed=["r"]))
    assert batch.tokens_of(batch.states["r"]).tolist() == [1, 2, 3]
    assert batch.block_tables[0][batch.states["r"].row, 0] == 5


def test_a_prompt_that_is_computed_again_is_pooled_from_its_beginning(batch):
    pooling = Pooling(PoolingType.MEAN, normalize=False)
    batch.apply(step([new("r", [5, 6], [[1], [1]], pooling=pooling)]))
    batch.states["r"].pooling.take(torch.ones(1, 3))
    batch.apply(step([new("r", [5, 6], [[1], [1]], pooling=pooling)], removed=["r"]))
    batch.states["r"].pooling.take(torch.zeros(2, 3))
    assert batch.states["r"].pooling.rows().tolist() == [[0.0] * 3]
    assert batch.states["r"].pooling.pooling == pooling
