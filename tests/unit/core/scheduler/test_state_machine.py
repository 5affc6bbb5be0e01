"""Random adds, aborts and steps: blocks, references, hashes and queues agree after every one."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runtime.core.kv_cache.spec import FullAttentionSpec, SlidingWindowSpec

SPECS = {
    "full": {"a": FullAttentionSpec(4, 1)},
    "mixed": {"a": FullAttentionSpec(4, 1), "b": SlidingWindowSpec(4, 1, window=6)},
}


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("specs", list(SPECS))
@pytest.mark.parametrize("caching", [True, False])
def test_nothing_leaks(harness, policy, specs, caching):
    class Machine(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.h = harness(
                blocks=12,
                max_model_len=40,
                budget=16,
                max_seqs=4,
                policy=policy,
                caching=caching,
                specs=SPECS[specs],
            )

        @rule(
            start=st.sampled_from([0, 0, 0, 100]),
            length=st.integers(1, 36),
            output=st.integers(0, 20),
            priority=st.integers(-1, 1),
            salt=st.sampled_from([None, None, "s"]),
        )
        def add(self, start, length, output, priority, salt):
            prompt = list(range(start, start + length))
            self.h.add(prompt, max_tokens=output, priority=priority, salt=salt)

        @precondition(lambda self: self.h.scheduler.requests)
        @rule(data=st.data())
        def abort(self, data):
            victim = data.draw(st.sampled_from(sorted(self.h.scheduler.requests)))
            before = self.h.scheduler.kv_cache.block_ids(victim)
            self.h.scheduler.abort([victim])
            assert self.h.scheduler.kv_cache.num_blocks_of(victim) == [0] * len(before)

        @rule(count=st.integers(1, 5))
        def step(self, count):
            for _ in range(count):
                self.h.step()

        @invariant()
        def books_agree(self):
            scheduler = self.h.scheduler
            scheduler.kv_cache.check()
            queued = [r.request_id for r in scheduler.waiting]
            running = [r.request_id for r in scheduler.running]
            assert sorted(queued + running) == sorted(scheduler.requests)
            assert len(running) <= 4
            for request in scheduler.running:
                assert 0 <= request.num_computed <= request.num_tokens
            for request in scheduler.waiting:
                assert scheduler.kv_cache.num_blocks_of(request.request_id) == [0] * len(
                    SPECS[specs]
                )

        def teardown(self):
            self.h.run()
            assert self.h.scheduler.kv_cache.usage == 0.0
            assert not self.h.scheduler.running
            assert not len(self.h.scheduler.waiting)
            self.h.scheduler.kv_cache.check()

    Machine.TestCase.settings = settings(
        max_examples=30,
        stateful_step_count=50,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    Machine.TestCase().runTest()
