"""Captured graphs give the tokens that eager steps give, and are really replayed."""

import pytest

from runtime.core.runner.graph_runner import GraphModelRunner
from runtime.platforms.null.platform import NullPlatform


@pytest.fixture(scope="module")
def path(tiny_model):
    return tiny_model("llama")


def runner_of(llm):
    return llm.engine.core.executor._worker.runner


@pytest.mark.parametrize("caching", [True, False])
def test_replayed_steps_equal_transformers(path, load, greedy, reference, ragged, caching):
    llm = load(path, platform="null", max_num_seqs=8, enable_prefix_caching=caching)
    runner = runner_of(llm)
    assert isinstance(runner, GraphModelRunner)
    assert list(runner.graphs) == [8, 4, 2, 1]
    before = llm.engine.config.platform.counters
    expected = reference(path, ragged, 16)
    assert greedy(llm, ragged, 16) == expected
    # Seven requests are padded to eight; one prefill, then fifteen decodes.
    assert runner.num_replays == 15
    assert (llm.engine.config.platform.counters - before).replays == 15
    assert greedy(llm, ragged[2:3], 16) == expected[2:3]
    assert runner.num_replays == 30


def test_a_preempted_batch_with_graphs(path, load, greedy, reference, ragged):
    llm = load(
        path,
        platform="null",
        max_num_seqs=4,
        max_model_len=128,
        num_kv_blocks_override=9,
        max_num_batched_tokens=40,
    )
    assert greedy(llm, ragged, 30) == reference(path, ragged, 30)
    assert llm.engine.core.scheduler.stats.num_preemptions > 0


def test_eager_where_it_is_asked_for(path, load, greedy, reference, ragged):
    llm = load(path, platform="null", enforce_eager=True)
    assert runner_of(llm).graphs == {}
    assert greedy(llm, ragged, 8) == reference(path, ragged, 8)
    assert runner_of(llm).num_replays == 0
    assert llm.engine.config.platform.counters.captures >= 0


def test_a_platform_that_computes_while_capturing_captures_what_comes(
    path, load, greedy, reference, ragged
):
    llm = load(path, platform="cpu", max_num_seqs=8)
    runner = runner_of(llm)
    assert isinstance(runner, GraphModelRunner)
    assert runner.graphs == {}
    assert greedy(llm, ragged, 16) == reference(path, ragged, 16)
    # All seven decode together: the first step captures, the others replay.
    assert list(runner.graphs) == [7]
    assert runner.num_replays == 14
    assert greedy(llm, ragged[:3], 16) == reference(path, ragged[:3], 16)
    assert greedy(llm, ragged, 16) == reference(path, ragged, 16)
    assert list(runner.graphs) == [7, 3]
    assert runner.num_replays == 14 + 14 + 15


class InPieces(NullPlatform):
    """Captures steps of up to 64 tokens in pieces."""

    @property
    def policy(self):
        policy = super().policy
        policy.piece_sizes = lambda tokens: (16, 64)
        return policy


def test_steps_with_prompts_in_pieces_equal_transformers(path, load, greedy, reference, ragged):
    llm = load(path, platform=InPieces(), max_num_seqs=8, max_num_batched_tokens=48)
    runner = runner_of(llm)
    # More tokens than a step has are no size.
    assert runner.pieces.sizes == [16]
    expected = reference(path, ragged, 16)
    for prompt, tokens in zip(ragged, expected, strict=True):
        assert greedy(llm, [prompt], 16) == [tokens]
    alone = runner.pieces.num_replays
    assert alone > 0
    # Decodes beside parts of prompts.
    assert greedy(llm, ragged, 16) == expected
    short = [prompt[:4] for prompt in ragged[:3]]
    assert greedy(llm, short, 9) == reference(path, short, 9)
    assert runner.pieces.num_replays > alone
