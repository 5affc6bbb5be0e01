"""Requests that pool, while the engine is at them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.core.engine.request import FinishReason
from runtime.core.errors import EngineDeadError, RequestError
from runtime.core.messages import EngineOutput, EngineRequest
from runtime.core.pooling.outputs import PooledRequest, PoolingOutput, PoolingRequestOutput

if TYPE_CHECKING:
    from runtime.core.engine.stats import StatLogger


class PendingPooling:
    """Requests by their ids, and the results that they become."""

    def __init__(self) -> None:
        self._requests: dict[str, EngineRequest] = {}

    def __len__(self) -> int:
        """Count those that have not ended."""
        return len(self._requests)

    def __contains__(self, request_id: str) -> bool:
        """Whether that one has not ended."""
        return request_id in self._requests

    def add(self, request: EngineRequest) -> None:
        """Begin one.

        Raises:
            RequestError: its id is in use.
        """
        if request.request_id in self._requests:
            raise RequestError(f"request_id={request.request_id!r} is already in use", "request_id")
        self._requests[request.request_id] = request

    def take(self, output: EngineOutput) -> PoolingRequestOutput | None:
        """The result that an output is; None where it is another's."""
        request = self._requests.pop(output.request_id, None)
        if request is None:
            return None
        return PooledRequest(
            request_id=output.request_id,
            outputs=PoolingOutput.from_vectors(output.pooled),
            prompt_token_ids=list(request.prompt_token_ids),
            num_cached_tokens=output.num_cached_tokens,
            finish_reason=output.finish_reason or FinishReason.STOP.value,
            error=output.error,
        )

    def drop(self, request_id: str) -> bool:
        """Forget one; returns whether it was there."""
        return self._requests.pop(request_id, None) is not None


@dataclass(frozen=True)
class _Waiting:
    request: EngineRequest
    future: asyncio.Future[PoolingRequestOutput]


class PoolingFutures:
    """The same for callers that await each result, on one event loop."""

    def __init__(self) -> None:
        self._pending = PendingPooling()
        self._waiting: dict[str, _Waiting] = {}

    def __len__(self) -> int:
        """Count those that have not ended."""
        return len(self._waiting)

    def __contains__(self, request_id: str) -> bool:
        """Whether that one has not ended."""
        return request_id in self._waiting

    def names(self) -> list[str]:
        """The ids of those that have not ended."""
        return list(self._waiting)

    def add(self, request: EngineRequest) -> asyncio.Future[PoolingRequestOutput]:
        """Begin one; RequestError where its id is in use."""
        self._pending.add(request)
        future: asyncio.Future[PoolingRequestOutput] = asyncio.get_running_loop().create_future()
        self._waiting[request.request_id] = _Waiting(request, future)
        return future

    def take(self, output: EngineOutput, loggers: Sequence[StatLogger]) -> bool:
        """Give an output to whom it belongs; returns whether it is one of these."""
        result = self._pending.take(output)
        if result is None:
            return False
        self._settle(result, output.scheduled_time, loggers)
        return True

    def abort(self, request_id: str, loggers: Sequence[StatLogger]) -> bool:
        """End one; returns whether it was there. Whoever awaits it gets an empty result."""
        end = EngineOutput(request_id, [], finish_reason=FinishReason.ABORT.value)
        return self.take(end, loggers)

    def fail(self, error: EngineDeadError) -> None:
        """No result will come any more."""
        for waiting in self._waiting.values():
            if not waiting.future.done():
                waiting.future.set_exception(EngineDeadError(str(error)))
        self._pending, self._waiting = PendingPooling(), {}

    def _settle(
        self, result: PoolingRequestOutput, scheduled: float, loggers: Sequence[StatLogger]
    ) -> None:
        waiting = self._waiting.pop(result.request_id)
        # Counted before whoever awaits it can look at the counts.
        _tell(waiting.request, result, scheduled, loggers)
        if not waiting.future.done():
            waiting.future.set_result(result)


def _tell(
    request: EngineRequest,
    result: PoolingRequestOutput,
    scheduled: float,
    loggers: Sequence[StatLogger],
) -> None:
    """Count a request that has ended."""
    # Here, since that module imports this one's neighbours.
    from runtime.core.engine.stats import FinishedRequest

    now, tokens = time.time(), len(request.prompt_token_ids)
    begun = scheduled or None
    finished = FinishedRequest(
        finish_reasons=(result.finish_reason,),
        num_prompt_tokens=tokens,
        num_generation_tokens=0,
        e2e_seconds=now - request.arrival_time,
        queue_seconds=None if begun is None else max(0.0, begun - request.arrival_time),
        prefill_seconds=None if begun is None else max(0.0, now - begun),
        decode_seconds=None,
        max_tokens=None,
        n=1,
    )
    for logger in loggers:
        if begun is not None:
            logger.record_prompt(tokens, now - request.arrival_time)
        logger.record_finished(finished)
