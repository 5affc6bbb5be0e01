"""A process' end of a hub: an engine that it shares with others."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence

import msgspec
import zmq
import zmq.asyncio

from runtime.core.engine.client import SHUTDOWN_SECONDS
from runtime.core.engine.hub import TO_HUB, from_hub
from runtime.core.engine.hub_wire import (
    AskMetrics,
    Event,
    Events,
    Forward,
    FromFrontEnd,
    MetricsText,
    PromptDone,
    RequestDone,
    Serving,
    ToFrontEnd,
    TokensDone,
)
from runtime.core.engine.process import address
from runtime.core.engine.stats import FinishedRequest
from runtime.core.engine.wire import (
    AbortRequests,
    AddRequests,
    Command,
    EngineFailed,
    EngineReady,
    EngineStats,
    EngineStep,
)
from runtime.core.errors import EngineDeadError

_ANSWER_SECONDS = 10.0


class FrontEnd:
    """An :class:`~runtime.core.engine.client.EngineConnection` through a hub.

    Args:
        folder: where the hub's sockets are.
        index: which of the front ends this is.
        ready: what the engine said when the model was loaded.
        engine_pid: the engine's process id.
    """

    def __init__(self, folder: str, index: int, ready: EngineReady, engine_pid: int | None) -> None:
        self.ready = ready
        self._index = index
        self._pid = engine_pid
        self._context = zmq.Context()
        self._out, self._in = self._socket(zmq.PUSH), self._socket(zmq.PULL)
        self._out.connect(address(folder, TO_HUB))
        self._in.bind(address(folder, from_hub(index)))
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[ToFrontEnd] = msgspec.msgpack.Decoder(ToFrontEnd)
        self._numbers = itertools.count()
        self._asked: dict[int, asyncio.Future[MetricsText]] = {}
        self._death: EngineDeadError | None = None

    @property
    def pid(self) -> int | None:
        """The engine's process id."""
        return self._pid

    def send(self, command: Command) -> None:
        """Hand a command over; never waits."""
        begun, ended = [], []
        match command:
            case AddRequests():
                begun = [request.request_id for request in command.requests]
            case AbortRequests():
                ended = command.request_ids
            case _:
                raise ValueError(f"{type(command).__name__} is for whoever started the engine")
        self._send(Forward(self._index, begun, ended), self._encoder.encode(command))

    def serving(self) -> None:
        """Tell the hub that requests are taken."""
        self._send(Serving(self._index))

    def record(self, events: list[Event]) -> None:
        """Tell the hub what happened to requests."""
        self._send(Events(events))

    async def metrics(self, accept: str) -> tuple[bytes, str]:
        """The series of all front ends as text, and its content type.

        Raises:
            EngineDeadError: the hub does not answer.
        """
        if self._death is not None:
            raise self._death
        number = next(self._numbers)
        self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self._send(AskMetrics(self._index, number, accept))
            answer = await asyncio.wait_for(self._asked[number], _ANSWER_SECONDS)
        except TimeoutError as error:
            raise EngineDeadError("the process that counts for all servers is gone") from error
        finally:
            del self._asked[number]
        return answer.text, answer.content_type

    async def receive(self, take: Callable[[EngineStep], None]) -> EngineDeadError:
        """Give each step to ``take``; returns why there are no more."""
        socket = zmq.asyncio.Socket.from_socket(self._in)
        while True:
            message = self._decoder.decode(await socket.recv())
            match message:
                case EngineStep():
                    take(message)
                case MetricsText():
                    waiting = self._asked.get(message.number)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(message)
                case EngineFailed():
                    self._death = EngineDeadError(message.cause)
                    for waiting in self._asked.values():
                        if not waiting.done():
                            waiting.set_exception(self._death)
                    return self._death

    def shutdown(self, timeout: float = SHUTDOWN_SECONDS) -> None:
        """Let go of the engine; what was sent still arrives, within ``timeout`` seconds."""
        self._context.destroy(linger=int(min(timeout, 1.0) * 1000))

    def _send(self, header: FromFrontEnd, *frames: bytes) -> None:
        self._out.send_multipart([self._encoder.encode(header), *frames], zmq.NOBLOCK)

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.setsockopt(zmq.RCVHWM, 0)
        return socket


class SharedMetrics:
    """A ``StatLogger`` that tells the hub, and the series of all front ends."""

    def __init__(self, front_end: FrontEnd) -> None:
        self._front_end = front_end
        self._events: list[Event] = []

    async def expose(self, accept: str) -> tuple[bytes, str]:
        """The series as text, and its content type, in a format that a scraper accepts."""
        return await self._front_end.metrics(accept)

    def record_step(self, stats: EngineStats) -> None:
        """A step is done; the hub has seen it too."""

    def record_prompt(self, num_tokens: int, time_to_first_token: float) -> None:
        """A prompt was computed."""
        self._add(PromptDone(num_tokens, time_to_first_token))

    def record_tokens(self, count: int, inter_token_seconds: Sequence[float]) -> None:
        """Tokens were generated."""
        self._add(TokensDone(count, list(inter_token_seconds)))

    def record_finished(self, request: FinishedRequest) -> None:
        """A request has ended."""
        self._add(RequestDone(request))

    def _add(self, event: Event) -> None:
        if not self._events:
            # Before whoever waits for the tokens gets to run, and all of a step at once.
            asyncio.get_running_loop().call_soon(self._flush)
        self._events.append(event)

    def _flush(self) -> None:
        events, self._events = self._events, []
        self._front_end.record(events)
