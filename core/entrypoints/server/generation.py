"""The engine's requests that one HTTP request becomes: begun together, ended together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence

from runtime.core.engine.async_llm import PreparedRequest, RequestStream
from runtime.core.engine.input_processor import Prompt
from runtime.core.engine.outputs import CompletionOutput, RequestOutput
from runtime.core.entrypoints.server.context import ServerContext
from runtime.core.entrypoints.server.request_log import RequestLog
from runtime.core.errors import RequestError
from runtime.core.sampling.params import SamplingParams


class Generation:
    """Prompts that were checked, on their way through the engine.

    Whoever makes one must :meth:`close` it, whatever happens: requests go on until then.
    """

    def __init__(self, streams: Sequence[RequestStream], log: RequestLog) -> None:
        self._streams = streams
        self._log = log
        self._open = True

    @classmethod
    async def begin(
        cls,
        context: ServerContext,
        request_id: str,
        prompts: Sequence[Prompt],
        params: SamplingParams,
    ) -> Generation:
        """Check all prompts and begin, or begin none.

        Raises:
            RequestError: a prompt or a parameter is refused.
            EngineDeadError: the engine has died.
        """
        engine, log = context.engine, context.request_log
        engine.check_health()
        many = len(prompts) > 1
        prepared: list[PreparedRequest] = []
        for index, prompt in enumerate(prompts):
            if index:
                # There may be thousands of prompts, and others to be served.
                await asyncio.sleep(0)
            name = f"{request_id}-{index}" if many else request_id
            try:
                prepared.append(await engine.prepare(name, prompt, params))
            except RequestError as error:
                if many and error.param in ("prompt", "prompt_token_ids"):
                    raise RequestError(f"prompt[{index}]: {error}", "prompt") from None
                raise
        streams = engine.start(prepared)
        for one, prompt in zip(prepared, prompts, strict=True):
            log.log_prompt(one.request.request_id, prompt, params)
        return cls(streams, log)

    async def outputs(self) -> AsyncGenerator[tuple[int, RequestOutput], None]:
        """Outputs as they come, with the index of their prompt.

        Raises:
            EngineDeadError: the engine died meanwhile.
        """
        if len(self._streams) == 1:
            async for output in self._streams[0].outputs():
                yield 0, output
            return
        queue: asyncio.Queue[tuple[int, RequestOutput] | Exception | None] = asyncio.Queue()
        tasks = [
            asyncio.create_task(_pass_on(index, stream, queue))
            for index, stream in enumerate(self._streams)
        ]
        try:
            for _ in tasks:
                while (item := await queue.get()) is not None:
                    if isinstance(item, Exception):
                        raise item
                    yield item
        finally:
            for task in tasks:
                task.cancel()

    async def final(self) -> list[RequestOutput]:
        """The last output of each prompt, in their order."""
        last: dict[int, RequestOutput] = {}
        async for index, output in self.outputs():
            last[index] = output
        return [last[index] for index in range(len(self._streams))]

    def close(self) -> None:
        """End what has not ended, and free its KV blocks; log what there was."""
        for stream in self._streams:
            stream.close()
            if self._open and self._log.outputs:
                self._log.log_output(stream.tracker.request_id, stream.tracker.all_outputs())
        self._open = False


async def _pass_on(
    index: int,
    stream: RequestStream,
    queue: asyncio.Queue[tuple[int, RequestOutput] | Exception | None],
) -> None:
    try:
        async with contextlib.aclosing(stream.outputs()) as outputs:
            async for output in outputs:
                queue.put_nowait((index, output))
    except Exception as error:
        queue.put_nowait(error)
    else:
        queue.put_nowait(None)


def failure_of(outputs: Sequence[CompletionOutput]) -> str | None:
    """What went wrong in the engine with one of the outputs alone."""
    for output in outputs:
        if output.finish_reason == "error":
            return output.error or "the engine failed on this request"
    return None
