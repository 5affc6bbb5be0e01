"""The engine in a process of its own: what it gives, how requests end, how it ends."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from runtime import AsyncLLM, RuntimeUserError, SamplingParams
from runtime.core.engine.stats import FinishedRequest
from runtime.core.errors import EngineDeadError, RequestError
from runtime.core.sampling.params import OutputKind

OPTIONS = {
    "skip_tokenizer_init": True,
    "dtype": "float32",
    "max_num_seqs": 8,
    "use_tqdm_on_load": False,
    "platform": "cpu",
}
ENDLESS = {"temperature": 0, "max_tokens": 200, "ignore_eos": True}


class Engine:
    """An ``AsyncLLM`` with the event loop that it belongs to."""

    def __init__(self, path):
        self.llm = AsyncLLM(str(path), **OPTIONS)
        self.loop = asyncio.new_event_loop()

    def run(self, work):
        return self.loop.run_until_complete(asyncio.wait_for(work, 60))

    async def tokens(self, prompt, **params):
        """All token ids of each output."""
        last = None
        async for output in self.llm.generate(
            {"prompt_token_ids": prompt}, SamplingParams(**params)
        ):
            last = output
        return [one.token_ids for one in last.outputs]

    async def idle(self, seconds=5):
        """Wait until the engine says that nothing runs or is kept."""
        end = time.monotonic() + seconds
        while self.llm.stats.num_running or self.llm.stats.kv_cache_usage:
            assert time.monotonic() < end, self.llm.stats
            await asyncio.sleep(0.01)

    def close(self):
        self.llm.shutdown()
        rest = asyncio.all_tasks(self.loop)
        if rest:
            self.loop.run_until_complete(asyncio.wait(rest))
        self.loop.close()


@pytest.fixture(scope="module")
def path(tiny_model):
    return tiny_model("llama")


@pytest.fixture(scope="module")
def engine(path):
    made = Engine(path)
    yield made
    made.close()


@pytest.fixture
def doomed(path):
    """An engine that the test brings to an end."""
    made = Engine(path)
    yield made
    made.close()


def test_outputs_are_those_of_the_engine_in_process(engine, path, load, greedy, ragged):
    expected = greedy(load(path), ragged, 12)

    async def work():
        params = {**ENDLESS, "max_tokens": 12}
        return await asyncio.gather(*(engine.tokens(prompt, **params) for prompt in ragged))

    assert [only for (only,) in engine.run(work())] == expected


def test_deltas_add_up_however_slowly_they_are_taken(engine):
    async def work():
        (whole,) = await engine.tokens([5, 6], **{**ENDLESS, "max_tokens": 30})
        params = SamplingParams(**{**ENDLESS, "max_tokens": 30}, output_kind=OutputKind.DELTA)
        parts = []
        async for output in engine.llm.generate({"prompt_token_ids": [5, 6]}, params):
            parts += output.outputs[0].token_ids
            await asyncio.sleep(0.005)
        return whole, parts

    whole, parts = engine.run(work())
    assert parts == whole
    assert len(whole) == 30


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("how", ["close", "cancel", "abort"])
def test_a_request_that_is_given_up_frees_what_it_has(engine, n, how):
    params = SamplingParams(max_tokens=200, ignore_eos=True, n=n)
    ended = []

    class Log:
        def record_step(self, stats): ...
        def record_prompt(self, *_): ...
        def record_tokens(self, *_): ...
        def record_finished(self, request: FinishedRequest):
            ended.append(request.finish_reasons)

    async def work():
        stream = engine.llm.generate({"prompt_token_ids": [9]}, params, "mine")
        first = await anext(stream)
        assert not first.finished
        if how == "close":
            await stream.aclose()
        elif how == "abort":
            engine.llm.abort("mine")
            last = [output async for output in stream][-1]
            assert [one.finish_reason for one in last.outputs] == ["abort"] * n
        else:
            task = asyncio.ensure_future(anext_forever(stream))
            await asyncio.sleep(0.02)
            task.cancel()
            await asyncio.wait({task})
            await stream.aclose()
        await engine.idle(1)
        assert engine.llm.num_unfinished_requests == 0

    async def anext_forever(stream):
        async for _ in stream:
            pass

    engine.llm.stat_loggers.append(Log())
    try:
        engine.run(work())
    finally:
        engine.llm.stat_loggers.clear()
    assert ended == [("abort",) * n]


def test_a_refused_request_harms_no_other(engine):
    async def work():
        (before,) = await engine.tokens([3, 4], **{**ENDLESS, "max_tokens": 8})
        running = asyncio.ensure_future(engine.tokens([3, 4], **{**ENDLESS, "max_tokens": 8}))
        await asyncio.sleep(0)
        for prompt in ([], [-1], [2**31], [True], [1.5], [1] * 1000):
            with pytest.raises(RequestError):
                await engine.tokens(prompt, **ENDLESS)
        return before, (await running)[0]

    before, beside = engine.run(work())
    assert beside == before


def test_an_id_that_is_in_use_is_refused(engine):
    async def work():
        params = SamplingParams(**ENDLESS)
        prepared = await engine.llm.prepare("same", {"prompt_token_ids": [1]}, params)
        (stream,) = engine.llm.start([prepared])
        with pytest.raises(RequestError, match="already in use"):
            engine.llm.start([prepared])
        stream.close()
        await engine.idle()

    engine.run(work())


def test_a_killed_engine_fails_every_waiter_with_the_cause(doomed):
    told = []
    doomed.llm.on_death.append(told.append)

    async def work():
        tasks = [asyncio.ensure_future(doomed.tokens([7], **ENDLESS)) for _ in range(3)]
        await asyncio.sleep(0.05)
        os.kill(doomed.llm.engine_pid, signal.SIGKILL)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        with pytest.raises(EngineDeadError, match="SIGKILL"):
            await doomed.tokens([7], **ENDLESS)
        return results

    for result in doomed.run(work()):
        assert isinstance(result, EngineDeadError)
        assert "SIGKILL" in str(result)
    assert len(told) == 1
    assert doomed.llm.dead_error is told[0]


def test_outputs_that_cannot_be_read_fail_every_waiter(doomed):
    class Broken:
        def record_prompt(self, *_):
            raise ZeroDivisionError("a logger's fault")

        def record_finished(self, _): ...

    doomed.llm.stat_loggers.append(Broken())
    with pytest.raises(EngineDeadError, match="a logger's fault"):
        doomed.run(doomed.tokens([7], **ENDLESS))


def test_one_event_loop_after_another(engine):
    async def work():
        return await engine.tokens([5, 6], **{**ENDLESS, "max_tokens": 5})

    expected = engine.run(work())

    async def leave():
        engine.llm._receiver.cancel()
        await asyncio.wait({engine.llm._receiver})

    engine.run(leave())
    assert [asyncio.run(work()) for _ in range(2)] == [expected, expected]


def test_what_the_engine_refuses_is_the_users_error(path):
    with pytest.raises(RuntimeUserError, match="max_model_len"):
        AsyncLLM(str(path), **OPTIONS, num_kv_blocks_override=2)


CHILD = """
import asyncio, sys
from runtime import AsyncLLM

if __name__ == "__main__":
    llm = AsyncLLM(sys.argv[1], skip_tokenizer_init=True, use_tqdm_on_load=False, platform="cpu")
    print(llm.engine_pid, llm._client._folder, flush=True)
    if sys.argv[2] == "wait":
        sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["killed", "ends without shutdown"])
def test_nothing_is_left_when_the_parent_is_gone(path, tmp_path, how):
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    wait = "wait" if how == "killed" else "end"
    with subprocess.Popen(
        [sys.executable, str(script), str(path), wait],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        pid, folder = parent.stdout.readline().split()
        if how == "killed":
            assert psutil.pid_exists(int(pid))
            parent.kill()
        parent.wait(30)
    end = time.monotonic() + 5
    while psutil.pid_exists(int(pid)) and psutil.Process(int(pid)).status() != "zombie":
        assert time.monotonic() < end, "the engine's process lives on"
        time.sleep(0.02)
    assert not os.path.exists(folder)  # noqa: PTH110
