"""One engine for several front ends: who asked gets the answer, and all are counted."""

import asyncio

import msgspec
import pytest

from runtime.core.engine.front_end import FrontEnd, SharedMetrics
from runtime.core.engine.hub import EngineHub
from runtime.core.engine.stats import FinishedRequest
from runtime.core.engine.wire import (
    AbortRequests,
    AddRequests,
    Command,
    EngineReady,
    EngineStats,
    EngineStep,
    Shutdown,
)
from runtime.core.errors import EngineDeadError
from runtime.core.messages import EngineOutput, EngineRequest
from runtime.core.sampling.params import SamplingParams

READY = EngineReady(100, 100, "a cache")
FINISHED = FinishedRequest(("stop",), 3, 2, 1.0, 0.1, 0.2, 0.3, None, 1)


class Engine:
    """An engine that does what the test says."""

    def __init__(self):
        self.commands, self.steps = [], asyncio.Queue()

    def send_encoded(self, command):
        self.commands.append(msgspec.msgpack.decode(command, type=Command))

    async def receive(self, take):
        while True:
            step = await self.steps.get()
            if isinstance(step, EngineDeadError):
                return step
            take(step)


class Log:
    """A ``StatLogger`` that keeps what it is told."""

    def __init__(self):
        self.lines = []

    def record_step(self, stats):
        self.lines.append(stats.num_running)

    def record_prompt(self, *values):
        self.lines.append(("prompt", *values))

    def record_tokens(self, *values):
        self.lines.append(("tokens", *values))

    def record_finished(self, request):
        self.lines.append(request)


class Setting:
    """A hub over an engine, with two front ends."""

    def __init__(self):
        self.engine, self.log = Engine(), Log()
        self.hub = EngineHub(self.engine, 2, self.expose, [self.log])
        self.ends = [FrontEnd(self.hub.folder, index, READY, 7) for index in range(2)]
        self.got = [[], []]
        self.tasks = [asyncio.ensure_future(self.hub.run())]
        for end, got in zip(self.ends, self.got, strict=True):
            self.tasks.append(asyncio.ensure_future(end.receive(got.append)))

    def expose(self, accept):
        return f"{accept}: {len(self.log.lines)} lines".encode(), "text/plain"

    def step(self, *outputs, running=0):
        self.engine.steps.put_nowait(EngineStep(list(outputs), EngineStats(running)))

    async def until(self, condition):
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.001)

    async def close(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)
        for end in self.ends:
            end.shutdown(0)
        self.hub.close()


@pytest.fixture
def run():
    """Run a test's coroutine with a setting."""

    def start(work):
        async def whole():
            setting = Setting()
            try:
                await work(setting)
            finally:
                await setting.close()

        asyncio.run(whole())

    return start


def request(name):
    return EngineRequest(name, [1, 2], SamplingParams(), [], 0.0)


def test_outputs_go_to_whoever_asked(run):
    async def work(it):
        for index, end in enumerate(it.ends):
            end.send(AddRequests([request(f"r{index}"), request(f"s{index}")]))
        await it.until(lambda: len(it.engine.commands) == 2)
        it.step(EngineOutput("r0", [5]), EngineOutput("r1", [6]), EngineOutput("s1", [7]))
        it.step(EngineOutput("s0", [8], "length"), running=3)
        await it.until(lambda: len(it.got[0]) == 2 and it.got[1])
        given = [
            [(o.request_id, o.new_token_ids) for s in got for o in s.outputs] for got in it.got
        ]
        assert given == [[("r0", [5]), ("s0", [8])], [("r1", [6]), ("s1", [7])]]
        assert it.got[0][1].stats.num_running == 3
        assert {c.requests[0].request_id for c in it.engine.commands} == {"r0", "r1"}

    run(work)


def test_what_comes_after_an_end_is_nobodys(run):
    async def work(it):
        it.ends[0].send(AddRequests([request("a"), request("b"), request("c")]))
        it.ends[0].send(AbortRequests(["a"]))
        await it.until(lambda: len(it.engine.commands) == 2)
        assert it.engine.commands[1] == AbortRequests(["a"])
        it.step(EngineOutput("a", [1]), EngineOutput("b", [2], "stop"))
        it.step(EngineOutput("b", [3]), EngineOutput("c", [4]))
        await it.until(lambda: len(it.got[0]) == 2)
        assert [[o.request_id for o in s.outputs] for s in it.got[0]] == [["b"], ["c"]]

    run(work)


def test_the_hub_counts_for_all_and_each_tells_the_whole(run):
    async def work(it):
        metrics = [SharedMetrics(end) for end in it.ends]
        it.step(running=4)
        await it.until(lambda: it.log.lines == [4])
        metrics[0].record_prompt(3, 0.5)
        metrics[0].record_tokens(2, (0.25,))
        metrics[1].record_finished(FINISHED)
        await it.until(lambda: len(it.log.lines) == 4)
        assert it.log.lines.index(("prompt", 3, 0.5)) < it.log.lines.index(("tokens", 2, [0.25]))
        assert FINISHED in it.log.lines
        for one in metrics:
            assert await one.expose("any") == (b"any: 4 lines", "text/plain")

    run(work)


def test_what_was_told_before_a_question_is_in_the_answer(run):
    async def work(it):
        metrics = SharedMetrics(it.ends[0])
        for round_ in range(1, 50):
            metrics.record_tokens(1, ())
            await asyncio.sleep(0)
            text, _ = await metrics.expose("any")
            assert text == f"any: {round_} lines".encode()

    run(work)


def test_the_engines_death_reaches_everybody(run):
    async def work(it):
        it.engine.steps.put_nowait(EngineDeadError("it was killed"))
        deaths = await asyncio.wait_for(asyncio.gather(*it.tasks), 10)
        assert [str(death) for death in deaths] == ["it was killed"] * 3
        with pytest.raises(EngineDeadError, match="it was killed"):
            await it.ends[1].metrics("any")

    run(work)


def test_all_serve_when_each_has_said_so(run):
    async def work(it):
        it.ends[0].serving()
        it.ends[0].serving()
        await asyncio.sleep(0.05)
        assert not it.hub.all_serve.is_set()
        it.ends[1].serving()
        await asyncio.wait_for(it.hub.all_serve.wait(), 10)

    run(work)


def test_a_front_end_cannot_end_the_engine(run):
    async def work(it):
        with pytest.raises(ValueError, match="Shutdown"):
            it.ends[0].send(Shutdown())

    run(work)
