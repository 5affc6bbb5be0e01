"""Waiting requests, in the order of the policy."""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from runtime.core.config.runtime import SchedulingPolicy
from runtime.core.engine.request import Request


class WaitingQueue:
    """Requests not running: those with the least key come first.

    First come first served orders by arrival, so a preempted request goes before all that came
    after it; ``priority`` orders by priority, then by arrival.
    """

    def __init__(self, policy: SchedulingPolicy) -> None:
        self._policy = policy
        self._requests: list[Request] = []

    def key(self, request: Request) -> tuple[int, float, int]:
        """Where a request stands; the greatest among running ones is preempted first."""
        by_priority = self._policy is SchedulingPolicy.PRIORITY
        priority = request.priority if by_priority else 0
        return priority, request.arrival_time, request.arrival_index

    def push(self, request: Request) -> None:
        """Put a request into its place."""
        bisect.insort(self._requests, request, key=self.key)

    def peek(self) -> Request:
        """The next request."""
        return self._requests[0]

    def pop(self) -> Request:
        """Take the next request."""
        return self._requests.pop(0)

    def remove(self, request: Request) -> None:
        """Take a request from wherever it stands."""
        self._requests.remove(request)

    def __len__(self) -> int:
        """Count the waiting requests."""
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        """Iterate in order."""
        return iter(self._requests)
