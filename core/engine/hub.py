"""One engine for several processes that serve clients: who asked gets the answer.

::

    front end 0 ─┐                ┌─► engine
    front end 1 ─┼─► EngineHub ───┤
    …            ◄─┘              ◄─┘

The hub is in the process that started the engine. It also counts for all front ends, so that each
of them can tell a scraper the whole.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence

import msgspec
import zmq
import zmq.asyncio

from runtime.core.engine.client import EngineClient
from runtime.core.engine.hub_wire import (
    AskMetrics,
    Event,
    Events,
    Forward,
    FromFrontEnd,
    MetricsText,
    PromptDone,
    Serving,
    ToFrontEnd,
    TokensDone,
)
from runtime.core.engine.process import address
from runtime.core.engine.stats import StatLogger
from runtime.core.engine.wire import EngineFailed, EngineStep
from runtime.core.errors import EngineDeadError
from runtime.core.messages import EngineOutput

TO_HUB = "to-hub"
_PATIENCE = 256
"""Messages that go before an answer that waits for the queue to be empty."""


def from_hub(front_end: int) -> str:
    """The name of the socket on which a front end is told things."""
    return f"from-hub-{front_end}"


class EngineHub:
    """Passes commands on to the engine, and its outputs to the front ends they belong to.

    Args:
        client: the engine.
        count: how many front ends there are.
        expose: the text of all series in a format that a client accepts, and its content type.
        loggers: told what the engine does and what the front ends tell of their requests.
    """

    def __init__(
        self,
        client: EngineClient,
        count: int,
        expose: Callable[[str], tuple[bytes, str]],
        loggers: Sequence[StatLogger],
    ) -> None:
        self.folder = tempfile.mkdtemp(prefix="runtime-")
        self.all_serve = asyncio.Event()
        """Set when every front end takes requests."""
        self._client = client
        self._expose = expose
        self._loggers = loggers
        self._context = zmq.Context()
        self._in = self._socket(zmq.PULL)
        self._in.bind(address(self.folder, TO_HUB))
        self._out = [self._socket(zmq.PUSH) for _ in range(count)]
        for index, socket in enumerate(self._out):
            # Connecting, unlike binding, keeps what is sent until the other end is there.
            socket.connect(address(self.folder, from_hub(index)))
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[FromFrontEnd] = msgspec.msgpack.Decoder(FromFrontEnd)
        self._owner: dict[str, int] = {}
        """The front end of each request in the engine."""
        self._not_serving = set(range(count))

    async def run(self) -> EngineDeadError:
        """Pass things on until the engine has died; all front ends are told, and why returned."""
        reading = asyncio.ensure_future(self._read())
        dying = asyncio.ensure_future(self._client.receive(self._deal))
        try:
            await asyncio.wait({reading, dying}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
            death = await dying
        finally:
            for task in (reading, dying):
                task.cancel()
        for index in range(len(self._out)):
            self._tell(index, EngineFailed(str(death), user_error=False))
        return death

    def close(self) -> None:
        """Leave nothing behind."""
        self._context.destroy(linger=0)
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _read(self) -> None:
        """Obey the front ends, for ever."""
        asked: list[AskMetrics] = []
        patience = _PATIENCE
        incoming = zmq.asyncio.Socket.from_socket(self._in)
        while True:
            header, *frames = await incoming.recv_multipart()
            message = self._decoder.decode(header)
            if isinstance(message, AskMetrics):
                asked.append(message)
            else:
                self._obey(message, frames)
            patience -= 1
            # What was counted before the question belongs into the answer.
            if asked and (patience <= 0 or not await incoming.poll(0)):
                for question in asked:
                    answer = MetricsText(question.number, *self._expose(question.accept))
                    self._tell(question.front_end, answer)
                asked.clear()
                patience = _PATIENCE

    def _obey(self, message: Forward | Events | Serving, frames: Sequence[bytes]) -> None:
        match message:
            case Forward():
                self._owner.update(dict.fromkeys(message.begun, message.front_end))
                for request_id in message.ended:
                    self._owner.pop(request_id, None)
                self._client.send_encoded(frames[0])
            case Events():
                for event in message.events:
                    self._record(event)
            case Serving():
                self._not_serving.discard(message.front_end)
                if not self._not_serving:
                    self.all_serve.set()

    def _record(self, event: Event) -> None:
        for logger in self._loggers:
            match event:
                case PromptDone():
                    logger.record_prompt(event.num_tokens, event.time_to_first_token)
                case TokensDone():
                    logger.record_tokens(event.count, event.inter_token_seconds)
                case _:
                    logger.record_finished(event.request)

    def _deal(self, step: EngineStep) -> None:
        """Give each front end its part of a step."""
        for logger in self._loggers:
            logger.record_step(step.stats)
        parts: defaultdict[int, list[EngineOutput]] = defaultdict(list)
        for output in step.outputs:
            owner = self._owner.get(output.request_id)
            if output.finish_reason is not None:
                self._owner.pop(output.request_id, None)
            if owner is not None:
                parts[owner].append(output)
        for index, outputs in parts.items():
            self._tell(index, EngineStep(outputs, step.stats))

    def _tell(self, front_end: int, message: ToFrontEnd) -> None:
        self._out[front_end].send(self._encoder.encode(message), zmq.NOBLOCK)

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.setsockopt(zmq.RCVHWM, 0)
        return socket
