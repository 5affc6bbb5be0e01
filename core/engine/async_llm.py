"""``AsyncLLM``: a model in a process of its own, for asyncio programs and for the server."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from runtime.core.config.args import EngineArgs
from runtime.core.config.runtime import RuntimeConfig
from runtime.core.engine.children import split
from runtime.core.engine.client import SHUTDOWN_SECONDS, EngineClient, EngineConnection
from runtime.core.engine.input_processor import InputProcessor, Prompt
from runtime.core.engine.output_processor import RequestTracker
from runtime.core.engine.outputs import RequestOutput
from runtime.core.engine.resolved import ResolvedEngine
from runtime.core.engine.stats import StatLogger, TokenTimes
from runtime.core.engine.wire import AbortRequests, AddRequests, EngineStats, EngineStep
from runtime.core.errors import ConfigError, EngineDeadError, RequestError
from runtime.core.messages import EngineOutput, EngineRequest
from runtime.core.pooling.inputs import PoolingInputProcessor
from runtime.core.pooling.outputs import PoolingRequestOutput
from runtime.core.pooling.params import PoolingParams
from runtime.core.pooling.requests import PoolingFutures
from runtime.core.sampling.params import OutputKind, SamplingParams
from runtime.core.tokenizer.interface import Tokenizer
from runtime.plugins.records import one_line

logger = logging.getLogger(__name__)

LONG_PROMPT = 16_384
"""Characters beyond which a prompt is tokenised in a thread: the event loop goes on meanwhile."""


@dataclass(frozen=True)
class PreparedRequest:
    """A request that was checked and not yet begun."""

    request: EngineRequest
    text: str | None


class AsyncLLM:
    """Loads a model in a process of its own and generates from prompts, many at once.

    Prompts are checked and tokenised, and outputs made into text, in the calling process. All
    methods but the constructor and :meth:`shutdown` belong to one event loop at a time.

    Args:
        model: path of a Hugging Face directory or of a GGUF file.
        kwargs: the fields of :class:`runtime.core.config.args.EngineArgs`.

    Raises:
        RuntimeUserError: the platform, the checkpoint or an argument will not do.
        EngineDeadError: the engine's process ended while it loaded the model.
    """

    def __init__(self, model: str, **kwargs: Any) -> None:
        known = {field.name for field in dataclasses.fields(EngineArgs)}
        unknown = sorted(set(kwargs) - known)
        if unknown:
            raise ConfigError(f"unknown argument {unknown[0]!r}; known: {', '.join(sorted(known))}")
        engine = ResolvedEngine.from_args(EngineArgs(model=str(model), **kwargs))
        # Before the model: what is wrong with it should not be learnt after minutes.
        tokenizer = engine.tokenizer()
        client = EngineClient(engine.config, lower_max_model_len=engine.lower_max_model_len)
        self._attach(engine.config, tokenizer, client)

    @classmethod
    def attached(cls, args: EngineArgs, connection: EngineConnection) -> AsyncLLM:
        """One of several in processes of their own over one engine, which somebody else started."""
        engine = ResolvedEngine.from_args(args)
        made = cls.__new__(cls)
        made._attach(engine.config, engine.tokenizer(), connection)
        return made

    def _attach(
        self, config: RuntimeConfig, tokenizer: Tokenizer | None, connection: EngineConnection
    ) -> None:
        self.tokenizer = tokenizer
        self._client = connection
        ready = connection.ready
        self.cache_summary = ready.summary
        self.config = dataclasses.replace(
            config, model=dataclasses.replace(config.model, max_model_len=ready.max_model_len)
        )
        self.input_processor = InputProcessor(
            self.config, self.tokenizer, lambda tokens, _step: tokens <= ready.longest_request
        )
        self.pooling_inputs = PoolingInputProcessor(
            self.config, self.tokenizer, self.input_processor
        )
        self._pooling = PoolingFutures()
        self.stats = EngineStats()
        self.stat_loggers: list[StatLogger] = []
        self.on_death: list[Callable[[EngineDeadError], None]] = []
        """Called once, when the engine has died by itself."""
        self._streams: dict[str, RequestStream] = {}
        self._stream_of_child: dict[str, RequestStream] = {}
        self._receiver: asyncio.Task[None] | None = None
        self._death: EngineDeadError | None = None

    @classmethod
    def from_engine_args(cls, args: EngineArgs) -> AsyncLLM:
        """The same, from an ``EngineArgs``."""
        return cls(**{field.name: getattr(args, field.name) for field in dataclasses.fields(args)})

    @property
    def dead_error(self) -> EngineDeadError | None:
        """Why the engine serves no more; None while it does."""
        return self._death

    @property
    def engine_pid(self) -> int | None:
        """The process id of the engine."""
        return self._client.pid

    @property
    def num_unfinished_requests(self) -> int:
        """Requests that were begun and have not ended."""
        return len(self._streams) + len(self._pooling)

    def check_health(self) -> None:
        """Raise EngineDeadError where the engine has died."""
        if self._death is not None:
            raise self._death

    def get_tokenizer(self) -> Tokenizer:
        """The model's tokenizer; ConfigError under ``skip_tokenizer_init``."""
        if self.tokenizer is None:
            raise ConfigError("the engine has no tokenizer: skip_tokenizer_init is set")
        return self.tokenizer

    def get_default_sampling_params(self) -> SamplingParams:
        """Sampling parameters with the checkpoint's ``generation_config.json`` as defaults."""
        return SamplingParams.from_generation_config(self.config.model.generation)

    async def generate(
        self,
        prompt: Prompt,
        sampling_params: SamplingParams | None = None,
        request_id: str | None = None,
    ) -> AsyncGenerator[RequestOutput, None]:
        """Complete one prompt and give its output as it grows, as ``output_kind`` says.

        A caller that takes outputs more slowly than they come gets several steps' in one. Closing
        the generator, or cancelling its task, ends the request.

        Raises:
            RequestError: the request is refused.
            EngineDeadError: the engine has died.
        """
        params = self.get_default_sampling_params() if sampling_params is None else sampling_params
        name = secrets.token_hex(8) if request_id is None else request_id
        (stream,) = self.start([await self.prepare(name, prompt, params)])
        try:
            async for output in stream.outputs():
                yield output
        finally:
            stream.close()

    async def prepare(
        self, request_id: str, prompt: Prompt, params: SamplingParams
    ) -> PreparedRequest:
        """Check and tokenise a request, which :meth:`start` begins.

        Raises:
            RequestError: it is refused.
        """
        process = self.input_processor.process
        if params.structured_outputs is not None or _is_long(prompt):
            request, text = await asyncio.to_thread(process, request_id, prompt, params)
        else:
            request, text = process(request_id, prompt, params)
        return PreparedRequest(request, text)

    def start(self, prepared: Sequence[PreparedRequest]) -> list[RequestStream]:
        """Begin requests, all or none; their outputs are awaited one by one.

        Raises:
            RequestError: a request's id is in use.
            EngineDeadError: the engine has died.
        """
        self.check_health()
        names = [one.request.request_id for one in prepared]
        self._check_new(names)
        self.listen()
        streams = []
        for one in prepared:
            children = split(one.request)
            tracker = RequestTracker(one.request.request_id, one.text, children, self.tokenizer)
            stream = RequestStream(self, tracker, one.request.params)
            self._streams[tracker.request_id] = stream
            for child in children:
                self._stream_of_child[child.request_id] = stream
            self._client.send(AddRequests(children))
            streams.append(stream)
        return streams

    async def encode(
        self,
        prompt: Prompt,
        pooling_params: PoolingParams | None = None,
        request_id: str | None = None,
    ) -> AsyncGenerator[PoolingRequestOutput, None]:
        """Embed one prompt; gives one output. Closing or cancelling ends the request.

        Raises:
            RequestError: the request is refused.
            EngineDeadError: the engine has died.
        """
        params = PoolingParams() if pooling_params is None else pooling_params
        name = secrets.token_hex(8) if request_id is None else request_id
        (future,) = self.start_pooling([await self.prepare_pooling(name, prompt, params)])
        try:
            yield await future
        finally:
            self.abort(name)

    async def prepare_pooling(
        self, request_id: str, prompt: Prompt, params: PoolingParams
    ) -> EngineRequest:
        """Check and tokenise a request for an embedding, which :meth:`start_pooling` begins.

        Raises:
            RequestError: it is refused.
        """
        process = self.pooling_inputs.process
        if _is_long(prompt):
            request, _ = await asyncio.to_thread(process, request_id, prompt, params)
        else:
            request, _ = process(request_id, prompt, params)
        return request

    def start_pooling(
        self, prepared: Sequence[EngineRequest]
    ) -> list[asyncio.Future[PoolingRequestOutput]]:
        """Begin requests for embeddings, all or none; :meth:`abort` ends one before its time.

        Raises:
            RequestError: a request's id is in use.
            EngineDeadError: the engine has died.
        """
        self.check_health()
        self._check_new([request.request_id for request in prepared])
        self.listen()
        self._client.send(AddRequests(list(prepared)))
        return [self._pooling.add(request) for request in prepared]

    def abort(self, request_id: str) -> None:
        """End a request at once: its stream gives what there is, finished by ``abort``.

        An unknown id is passed over.
        """
        stream = self._streams.get(request_id)
        if stream is not None:
            self._abort_children(stream.tracker.abort())
            self._forget(stream)
            stream.wake()
        elif self._pooling.abort(request_id, self.stat_loggers):
            self._abort_children([request_id])

    def abort_all(self) -> None:
        """End every request."""
        for request_id in [*self._streams, *self._pooling.names()]:
            self.abort(request_id)

    def shutdown(self, timeout: float = SHUTDOWN_SECONDS) -> None:
        """End the engine's process; waiting callers get an EngineDeadError.

        It gets ``timeout`` seconds to end by itself.
        """
        self._die(EngineDeadError("the engine was shut down"), announce=False)
        if self._receiver is not None and not self._receiver.get_loop().is_closed():
            self._receiver.cancel()
        self.input_processor.shutdown()
        self._client.shutdown(timeout)

    def __enter__(self) -> AsyncLLM:
        """Use as a context manager: shuts down at the end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Shut down."""
        self.shutdown()

    def listen(self) -> None:
        """Notice from now on, also without any request, when the engine dies."""
        # Another event loop's receiver was cancelled when that loop ended.
        if self._receiver is None or self._receiver.done():
            self._receiver = asyncio.get_running_loop().create_task(self._receive())

    async def _receive(self) -> None:
        try:
            death = await self._client.receive(self._take)
        except Exception as error:
            # Waiters would never learn of it: nothing reads the engine's outputs any more.
            logger.exception("reading the engine's outputs failed")
            death = EngineDeadError(f"reading the engine's outputs failed: {one_line(error)}")
        self._die(death, announce=True)

    def _take(self, step: EngineStep) -> None:
        """Hand a step's outputs to the requests they belong to."""
        self.stats = step.stats
        to_abort: list[str] = []
        for output in step.outputs:
            if self._pooling.take(output, self.stat_loggers):
                continue
            stream = self._stream_of_child.get(output.request_id)
            if stream is None:
                continue
            if stream.add(output, self.stat_loggers):
                to_abort.append(output.request_id)
            if stream.tracker.finished:
                self._forget(stream)
            stream.wake()
        if to_abort:
            self._abort_children(to_abort)
        for logger_ in self.stat_loggers:
            logger_.record_step(step.stats)

    def _check_new(self, names: Sequence[str]) -> None:
        """Refuse ids that are in use, or twice in one call."""
        seen: set[str] = set()
        for name in names:
            if name in self._streams or name in self._pooling or name in seen:
                raise RequestError(f"request_id={name!r} is already in use", "request_id")
            seen.add(name)

    def _abort_children(self, request_ids: list[str]) -> None:
        if request_ids and self._death is None:
            self._client.send(AbortRequests(request_ids))

    def _forget(self, stream: RequestStream) -> None:
        if self._streams.pop(stream.tracker.request_id, None) is None:
            return
        for child_id in stream.tracker.streams:
            self._stream_of_child.pop(child_id, None)
        finished = stream.times.finish(stream.tracker)
        for logger_ in self.stat_loggers:
            logger_.record_finished(finished)

    def _die(self, error: EngineDeadError, *, announce: bool) -> None:
        if self._death is not None:
            return
        self._death = error
        for stream in list(self._streams.values()):
            stream.fail(error)
        self._pooling.fail(error)
        self._streams.clear()
        self._stream_of_child.clear()
        if announce:
            logger.error("%s", error)
            for tell in self.on_death:
                tell(error)


class RequestStream:
    """A request's outputs as they come. Closing it ends the request."""

    def __init__(self, llm: AsyncLLM, tracker: RequestTracker, params: SamplingParams) -> None:
        self.tracker = tracker
        self.times = TokenTimes(tracker.first)
        self._llm = llm
        self._quiet = params.output_kind is OutputKind.FINAL_ONLY
        self._news = asyncio.Event()
        self._error: EngineDeadError | None = None
        self._over = False

    def add(self, output: EngineOutput, loggers: Sequence[StatLogger]) -> bool:
        """Take in what a step gave for one output; returns whether the engine must end it.

        An output that a stop string ended goes on in the engine until that reads of it: what comes
        meanwhile is nobody's.
        """
        if output.request_id not in self.tracker.unfinished:
            return False
        must_end = self.tracker.add(output)
        self.times.add(output, loggers)
        return must_end

    async def outputs(self) -> AsyncGenerator[RequestOutput, None]:
        """Outputs until the last one; EngineDeadError where the engine died meanwhile."""
        while not self._over:
            await self._news.wait()
            self._news.clear()
            if self._error is not None:
                self._over = True
                raise EngineDeadError(str(self._error)) from self._error
            output = self.tracker.output()
            if output is not None:
                self._over = output.finished
                yield output

    def wake(self) -> None:
        """There may be something new."""
        if not self._quiet or self.tracker.finished:
            self._news.set()

    def fail(self, error: EngineDeadError) -> None:
        """No more will come."""
        self._error = error
        self._news.set()

    def close(self) -> None:
        """End the request, if it has not ended, and free its KV blocks."""
        self._over = True
        self._llm.abort(self.tracker.request_id)


def _is_long(prompt: Prompt) -> bool:
    """Whether tokenising would keep the event loop busy."""
    if not isinstance(prompt, Mapping):
        return isinstance(prompt, str) and len(prompt) > LONG_PROMPT
    text = prompt.get("prompt")
    return "prompt_token_ids" not in prompt and isinstance(text, str) and len(text) > LONG_PROMPT
