"""What is computed when: budget, chunks, prefixes, preemption, order."""

import pytest

from runtime.core.kv_cache.spec import FullAttentionSpec, SlidingWindowSpec, StateSpec


def tokens(count, start=0):
    return [(start + index) % 900 for index in range(count)]


def test_a_long_prompt_is_computed_in_chunks_beside_running_requests(harness):
    h = harness(budget=8)
    first = h.add(tokens(4), max_tokens=20)
    h.step()
    second = h.add(tokens(20, 100), max_tokens=4)
    step = h.step()
    assert step.num_scheduled == {first: 1, second: 7}
    assert h.step().num_scheduled == {first: 1, second: 7}
    assert h.step().num_scheduled == {first: 1, second: 6}
    assert len(h.outputs[second]) == 1
    assert len(h.outputs[first]) == 4


def test_without_chunked_prefill_a_prompt_waits_until_it_fits_the_budget(harness):
    h = harness(budget=16, chunked=False, max_model_len=16)
    h.add(tokens(10), max_tokens=2)
    other = h.add(tokens(10, 50), max_tokens=2)
    assert other not in h.step().num_scheduled
    assert h.step().num_scheduled[other] == 10


def test_no_more_requests_run_than_max_num_seqs(harness):
    h = harness(max_seqs=2)
    ids = [h.add(tokens(3, 10 * n), max_tokens=3) for n in range(5)]
    assert list(h.step().num_scheduled) == ids[:2]
    h.run()
    assert all(len(h.outputs[i]) == 3 for i in ids)


@pytest.mark.parametrize(("length", "hit"), [(15, 12), (16, 12), (17, 16), (20, 16), (21, 20)])
def test_a_second_prompt_takes_full_blocks_but_never_its_last_token(harness, length, hit):
    h = harness(budget=64)
    h.add(tokens(length), max_tokens=1)
    h.run()
    again = h.add(tokens(length), max_tokens=1)
    step = h.step()
    assert step.num_scheduled[again] == length - hit
    assert h.finished[again].num_cached_tokens == hit


def test_output_blocks_are_cached_too(harness):
    h = harness(budget=64)
    first = h.add(tokens(6), max_tokens=7)
    h.run()
    follow_up = tokens(6) + h.outputs[first] + [5]
    second = h.add(follow_up, max_tokens=1)
    h.run()
    # 6 + 7 tokens known, the last one never computed: three full blocks.
    assert h.finished[second].num_cached_tokens == 12


def test_a_prefix_is_shared_within_one_step(harness):
    h = harness(budget=64, blocks=16)
    one, two = h.add(tokens(12) + [1], max_tokens=2), h.add(tokens(12) + [2], max_tokens=2)
    step = h.step()
    assert step.num_scheduled == {one: 13, two: 1}
    assert h.scheduler.kv_cache.usage == pytest.approx(5 / 16)


def test_a_salt_keeps_prompts_apart(harness):
    h = harness(budget=64)
    h.add(tokens(16), max_tokens=1, salt="a")
    h.run()
    other, same = h.add(tokens(16), max_tokens=1, salt="b"), None
    h.run()
    same = h.add(tokens(16), max_tokens=1, salt="a")
    h.run()
    assert h.finished[other].num_cached_tokens == 0
    assert h.finished[same].num_cached_tokens == 12


def test_prompt_logprobs_read_no_cached_blocks(harness):
    h = harness(budget=64)
    h.add(tokens(16), max_tokens=1)
    h.run()
    again = h.add(tokens(16), max_tokens=1, prompt_logprobs=0)
    assert h.step().num_scheduled[again] == 16


def test_the_cache_can_be_turned_off(harness):
    h = harness(budget=64, caching=False)
    h.add(tokens(16), max_tokens=1)
    h.run()
    again = h.add(tokens(16), max_tokens=1)
    assert h.step().num_scheduled[again] == 16


def test_the_newest_request_gives_way_and_the_outputs_stay_the_same(harness):
    prompts = [tokens(6, 100 * n) for n in range(4)]
    roomy, tight = harness(blocks=64), harness(blocks=9)
    expected = [roomy.add(p, max_tokens=12) for p in prompts]
    got = [tight.add(p, max_tokens=12) for p in prompts]
    roomy.run()
    tight.run()
    assert tight.scheduler.stats.num_preemptions > 0
    assert roomy.scheduler.stats.num_preemptions == 0
    assert [tight.outputs[i] for i in got] == [roomy.outputs[i] for i in expected]
    assert tight.finished[got[0]].num_preemptions == 0
    assert tight.finished[got[3]].num_preemptions > 0


def test_a_preempted_request_finds_its_own_blocks_again(harness):
    h = harness(blocks=8, max_model_len=32)
    first, second = h.add(tokens(14), max_tokens=10), h.add(tokens(14, 50), max_tokens=4)
    while not h.scheduler.stats.num_preemptions:
        h.step()
    h.run()
    assert len(h.outputs[first]) == 10
    assert len(h.outputs[second]) == 4
    assert h.finished[second].num_cached_tokens == 0, "counted when it first ran"


def test_lower_priority_values_run_first_and_the_highest_is_preempted(harness):
    h = harness(policy="priority", max_seqs=1)
    h.add(tokens(3), max_tokens=2, priority=0)
    h.step()
    late, urgent = h.add(tokens(3, 9), priority=5), h.add(tokens(3, 20), priority=-1)
    h.run()
    order = list(h.finished)
    assert order.index(urgent) < order.index(late)


def test_under_priority_an_early_but_unimportant_request_gives_way(harness):
    h = harness(policy="priority", blocks=6, max_model_len=24)
    low = h.add(tokens(8), max_tokens=12, priority=9)
    h.step()
    high = h.add(tokens(8, 50), max_tokens=12, priority=1)
    h.run()
    assert h.finished[low].num_preemptions > 0
    assert h.finished[high].num_preemptions == 0


def test_blocks_offered_for_a_step_that_a_preemption_cancelled_are_not_found(harness):
    """The victim was scheduled earlier in the same step: its new block was never computed."""
    h = harness(policy="priority", blocks=8, max_model_len=32, block_size=4, budget=64)
    low = h.add(tokens(15), max_tokens=16, priority=9)
    h.step()
    high = h.add(tokens(12, 50), max_tokens=16, priority=1)
    while not h.scheduler.stats.num_preemptions:
        before = h.scheduler.requests[low].num_computed
        h.step()
    request = h.scheduler.requests[low]
    pool = h.scheduler.kv_cache._groups[0].pool
    found = [pool.lookup(name) is not None for name in request.block_hashes]
    assert not any(found[before // 4 :])
    h.run()
    assert len(h.outputs[high]) == 16


def test_aborting_frees_blocks_at_once_wherever_the_request_is(harness):
    h = harness(max_seqs=1, blocks=16)
    running, waiting = h.add(tokens(12), max_tokens=9), h.add(tokens(9, 50), max_tokens=9)
    h.step()
    assert h.scheduler.abort([waiting, running, "unknown"]) == [waiting, running]
    assert h.scheduler.kv_cache.usage == 0.0
    assert not h.scheduler.has_requests
    assert h.step().removed == [running]
    assert not h.known


def test_a_request_id_in_use_is_refused(harness):
    h = harness()
    h.add(tokens(3), request_id="same")
    with pytest.raises(ValueError, match="'same' is already in use"):
        h.add(tokens(3), request_id="same")


def test_max_tokens_zero_computes_the_prompt_alone(harness):
    h = harness()
    request = h.add(tokens(9), max_tokens=0)
    h.run()
    assert h.outputs[request] == []
    assert h.finished[request].finish_reason == "length"


def test_output_ends_at_max_model_len(harness):
    h = harness(max_model_len=16)
    request = h.add(tokens(10), max_tokens=None)
    h.run()
    assert len(h.outputs[request]) == 6
    assert h.finished[request].finish_reason == "length"


WINDOW = {
    "full": FullAttentionSpec(4, 1),
    "sliding": SlidingWindowSpec(4, 1, window=9),
}


def test_blocks_behind_a_sliding_window_are_freed(harness):
    h = harness(specs=WINDOW, blocks=16, budget=4)
    request = h.add(tokens(40), max_tokens=20)
    while h.scheduler.has_requests:
        h.step()
        if request in h.scheduler.requests:
            full, sliding = h.scheduler.kv_cache.block_ids(request)
            assert sum(b != 0 for b in sliding) <= 4
            assert all(full)
    assert len(h.outputs[request]) == 20


def test_a_prefix_under_a_sliding_window_needs_only_the_window(harness):
    h = harness(specs=WINDOW, blocks=16, budget=64)
    h.add(tokens(32) + [1], max_tokens=1)
    h.run()
    again = h.add(tokens(32) + [2], max_tokens=1)
    step = h.step()
    assert step.num_scheduled[again] == 1
    blocks = step.new_requests[0].block_ids
    # Token 32 sees 24..32: blocks 6 and 7 of the cached ones, and its own.
    assert [b != 0 for b in blocks[1]] == [False] * 6 + [True] * 3
    assert all(blocks[0])


def test_a_prefix_ends_where_the_window_has_been_evicted(harness):
    h = harness(specs=WINDOW, blocks=16, budget=64)
    h.add(tokens(32) + [1], max_tokens=1)
    h.run()
    sliding = h.scheduler.kv_cache._groups[1].pool
    request = h.scheduler
    h.add(tokens(32) + [2], max_tokens=1, request_id="probe")
    name = request.requests["probe"].block_hashes[7]
    sliding.uncache([sliding.lookup(name)])
    assert h.step().num_scheduled["probe"] == 33 - 28


def test_a_model_with_a_state_shares_no_prefix(harness):
    specs = {"full": FullAttentionSpec(4, 1), "state": StateSpec(64, 1)}
    h = harness(specs=specs, budget=64)
    h.add(tokens(16), max_tokens=1)
    h.run()
    again = h.add(tokens(16), max_tokens=1)
    assert h.step().num_scheduled[again] == 16


@pytest.mark.parametrize(("ignore_eos", "expected"), [(False, [7, 50, 999]), (True, [7, 50])])
def test_min_tokens_keeps_out_every_token_that_could_end_the_output(harness, ignore_eos, expected):
    h = harness()
    h.add(tokens(3), stop_token_ids=[50, 7], min_tokens=2, ignore_eos=ignore_eos)
    assert h.scheduler.schedule().new_requests[0].stop_token_ids == expected
