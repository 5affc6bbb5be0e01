"""Tokens are counted once each, and times are those of the request."""

import pytest

from runtime.core.engine import stats as module
from runtime.core.engine.output_processor import RequestTracker
from runtime.core.engine.stats import TokenTimes
from runtime.core.messages import EngineOutput, EngineRequest
from runtime.core.sampling.params import SamplingParams


class Recorder:
    """Keeps what it is told."""

    def __init__(self):
        self.prompts, self.tokens = [], []

    def record_prompt(self, num_tokens, time_to_first_token):
        self.prompts.append((num_tokens, time_to_first_token))

    def record_tokens(self, count, inter_token_seconds):
        self.tokens.append((count, tuple(inter_token_seconds)))


@pytest.fixture
def at(monkeypatch):
    """Set the clock."""
    return lambda now: monkeypatch.setattr(module.time, "time", lambda: now)


def test_a_request_with_two_outputs(at):
    children = [
        EngineRequest(f"r#{index}", [1, 2, 3], SamplingParams(max_tokens=9), [], 10.0)
        for index in range(2)
    ]
    tracker = RequestTracker("r", None, children, None)
    times, seen = TokenTimes(children[0]), Recorder()

    def give(now, child, **fields):
        at(now)
        output = EngineOutput(f"r#{child}", [7], scheduled_time=11.0, **fields)
        tracker.add(output)
        times.add(output, [seen])

    give(13.0, 0)
    give(14.0, 1)
    give(15.0, 0, finish_reason="length")
    give(18.0, 1, finish_reason="stop")
    at(20.0)
    done = times.finish(tracker)
    assert seen.prompts == [(3, 3.0)]
    assert seen.tokens == [(1, ()), (1, ()), (1, (2.0,)), (1, (4.0,))]
    assert done.finish_reasons == ("length", "stop")
    assert (done.num_prompt_tokens, done.num_generation_tokens) == (3, 4)
    assert (done.e2e_seconds, done.queue_seconds) == (10.0, 1.0)
    assert (done.prefill_seconds, done.decode_seconds) == (2.0, 5.0)


def test_a_request_that_never_ran(at):
    child = EngineRequest("r", [1], SamplingParams(), [], 10.0)
    tracker = RequestTracker("r", None, [child], None)
    tracker.abort()
    at(12.0)
    done = TokenTimes(child).finish(tracker)
    assert done.finish_reasons == ("abort",)
    assert done.e2e_seconds == 2.0
    assert done.queue_seconds is done.prefill_seconds is done.decode_seconds is None
