"""When requests are sent, and how many are on their way."""

import asyncio
import random
import resource
import statistics
import time

import pytest

from runtime.core.entrypoints.bench.load import allow_connections, arrival_times, run_load
from runtime.core.entrypoints.bench.metrics import RequestRecord
from runtime.core.errors import ConfigError


def test_an_infinite_rate_sends_all_at_once():
    assert arrival_times(3, float("inf"), 1.0, random.Random(0)) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 16.0])
def test_intervals_have_the_mean_and_the_spread(burstiness):
    times = arrival_times(20_001, 4.0, burstiness, random.Random(1))
    intervals = [later - earlier for later, earlier in zip(times[1:], times, strict=False)]
    assert times[0] == 0.0
    assert statistics.mean(intervals) == pytest.approx(0.25, rel=0.05)
    # A gamma distribution's standard deviation is its mean over the root of its shape.
    assert statistics.stdev(intervals) == pytest.approx(0.25 / burstiness**0.5, rel=0.05)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_rate_must_be_positive(rate):
    with pytest.raises(ConfigError, match="request_rate="):
        arrival_times(1, rate, 1.0, random.Random(0))


@pytest.mark.parametrize("burstiness", [0.0, float("inf"), float("nan")])
def test_burstiness_must_be_positive(burstiness):
    with pytest.raises(ConfigError, match="burstiness="):
        arrival_times(1, 1.0, burstiness, random.Random(0))


@pytest.mark.parametrize(("count", "soft"), [(10, 300), (400, 500)])
def test_files_may_be_as_many_as_connections(count, soft):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, before[1]))
    try:
        allow_connections(count)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Sender:
    """Takes a while for each request, and counts those on their way."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.active = self.busiest = 0

    async def __call__(self, request):
        record = RequestRecord(time.perf_counter(), request)
        self.active += 1
        self.busiest = max(self.busiest, self.active)
        await asyncio.sleep(self.seconds)
        self.active -= 1
        return record


@pytest.mark.parametrize(("limit", "busiest"), [(None, 9), (1, 1), (4, 4)])
def test_no_more_are_on_their_way_than_may_be(limit, busiest):
    sender, done = Sender(0.01), []
    load = run_load(range(9), [0.0] * 9, sender, max_concurrency=limit, done=done.append)
    records, _ = asyncio.run(load)
    assert sender.busiest == busiest
    assert [record.prompt_tokens for record in records] == list(range(9))
    assert len(done) == 9


def test_requests_wait_until_they_are_due():
    due = [0.0, 0.05, 0.1]
    load = run_load(range(3), due, Sender(0.0), max_concurrency=None, done=lambda _: None)
    start = time.perf_counter()
    records, duration = asyncio.run(load)
    for record, when in zip(records, due, strict=True):
        assert record.sent - start >= when
    assert duration >= 0.1
