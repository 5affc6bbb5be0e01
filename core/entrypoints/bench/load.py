"""Sending requests: when each is due, and how many are on their way at once."""

from __future__ import annotations

import asyncio
import math
import random
import resource
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TypeVar

from runtime.core.entrypoints.bench.metrics import RequestRecord
from runtime.core.errors import ConfigError

T = TypeVar("T")

_OTHER_FILES = 100
"""Open files of a process beside its connections, at most."""


def arrival_times(count: int, rate: float, burstiness: float, rng: random.Random) -> list[float]:
    """Seconds from the start at which each request is due, the first at once.

    Intervals follow a gamma distribution of mean ``1 / rate`` whose shape is ``burstiness``: 1 is a
    Poisson process, less comes in bursts, more is more regular.

    Raises:
        ConfigError: a rate or burstiness that is not positive.
    """
    if not rate > 0:
        raise ConfigError(f"request_rate={rate:g} must be above 0; inf sends all at once")
    if not (burstiness > 0 and math.isfinite(burstiness)):
        raise ConfigError(f"burstiness={burstiness:g} must be above 0 and finite")
    if math.isinf(rate):
        return [0.0] * count
    due, times = 0.0, []
    for _ in range(count):
        times.append(due)
        due += rng.gammavariate(burstiness, 1 / (rate * burstiness))
    return times


def allow_connections(count: int) -> None:
    """Let this process have that many sockets open, as far as the system lets it decide."""
    wanted = count + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


async def run_load(
    requests: Sequence[T],
    due: Sequence[float],
    send: Callable[[T], Awaitable[RequestRecord]],
    *,
    max_concurrency: int | None,
    done: Callable[[RequestRecord], object],
) -> tuple[list[RequestRecord], float]:
    """Send each request when it is due; records in their order, and seconds for all.

    A request that waits since ``max_concurrency`` others are on their way has not been sent yet:
    its times begin when it is.

    Args:
        requests: what to send.
        due: seconds from the start, ascending.
        send: sends one and returns its record.
        max_concurrency: requests on their way at once; None is no limit.
        done: called with each record as it comes.
    """
    gate: AbstractAsyncContextManager[object] = (
        nullcontext() if max_concurrency is None else asyncio.Semaphore(max_concurrency)
    )

    async def one(request: T) -> RequestRecord:
        async with gate:
            record = await send(request)
        done(record)
        return record

    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        tasks = []
        for request, when in zip(requests, due, strict=True):
            pause = start + when - time.perf_counter()
            if pause > 0:
                await asyncio.sleep(pause)
            tasks.append(group.create_task(one(request)))
    return [task.result() for task in tasks], time.perf_counter() - start
