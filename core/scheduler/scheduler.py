"""The scheduler. It holds no tensor, and knows neither prefill nor decode.

Each request has tokens known and tokens computed. A step spends a token budget on closing the gap
between the two, running requests first; what remains of a long prompt waits for the next step
(chunked prefill). When blocks run out, the request that stands last gives its own back and is
computed again later (preemption by recomputation).

A step may be scheduled before the results of the one before it are known: what a step computes
counts as computed from the moment that it is scheduled, and the token that it will give is
*pending* until :meth:`Scheduler.update` brings it. The device runs steps in order, so blocks may
change hands.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from runtime.core.config.runtime import RuntimeConfig
from runtime.core.engine.request import FinishReason, Request, RequestStatus
from runtime.core.kv_cache.manager import KVCacheManager
from runtime.core.kv_cache.spec import KVCacheLayout
from runtime.core.messages import (
    EngineOutput,
    EngineRequest,
    RunnerOutput,
    ScheduledRequest,
    ScheduledUpdate,
    SchedulerOutput,
)
from runtime.core.pooling.params import Vectors
from runtime.core.scheduler.queue import WaitingQueue

logger = logging.getLogger(__name__)


@dataclass
class SchedulerStats:
    """Counters since the engine started."""

    num_preemptions: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0


@dataclass
class _Step:
    """A step while it is being put together."""

    budget: int
    new: list[ScheduledRequest] = field(default_factory=list)
    updates: dict[str, ScheduledUpdate] = field(default_factory=dict)
    num_scheduled: dict[str, int] = field(default_factory=dict)

    def take_back(self, request_id: str) -> None:
        """Undo the scheduling of a running request."""
        self.budget += self.num_scheduled.pop(request_id, 0)
        self.updates.pop(request_id, None)


@dataclass(frozen=True)
class _Scheduled:
    """One request's part of a step that is under way."""

    request: Request
    before: int
    """Tokens computed before the step."""
    count: int
    samples: bool
    """Whether the step gives its next token."""

    @property
    def prompt_tokens(self) -> int:
        after = min(self.before + self.count, self.request.num_prompt_tokens)
        return max(0, after - self.before)


def failed_output(request_id: str, error: str) -> EngineOutput:
    """The last output of a request with which something went wrong."""
    return EngineOutput(request_id, [], finish_reason=FinishReason.ERROR.value, error=error)


class Scheduler:
    """Requests, queues and the blocks they own."""

    def __init__(self, config: RuntimeConfig, layout: KVCacheLayout) -> None:
        self.config = config
        self.kv_cache = KVCacheManager(
            layout, enable_prefix_caching=config.cache.enable_prefix_caching
        )
        self.requests: dict[str, Request] = {}
        self.waiting = WaitingQueue(config.scheduler.policy)
        self.running: list[Request] = []
        self.stats = SchedulerStats()
        self._removed: list[str] = []
        self._under_way: deque[dict[str, _Scheduled]] = deque()
        self._bad_words: dict[str, list[list[int]]] = {}
        self._arrivals = 0

    @property
    def has_requests(self) -> bool:
        """Whether anything waits or runs."""
        return bool(self.requests)

    @property
    def has_work_for_runner(self) -> bool:
        """Whether a step has anything to say to the runner."""
        return bool(self.requests) or bool(self._removed)

    def add(self, message: EngineRequest) -> None:
        """Queue a request. Its id must be new: ValueError otherwise."""
        if message.request_id in self.requests:
            raise ValueError(f"request id {message.request_id!r} is already in use")
        config = self.config
        request = Request(message, config.cache.block_size, config.model.max_model_len)
        request.arrival_index = self._arrivals
        self._arrivals += 1
        self.requests[request.request_id] = request
        if message.bad_words_token_ids:
            self._bad_words[request.request_id] = message.bad_words_token_ids
        self.waiting.push(request)

    def abort(self, request_ids: Iterable[str]) -> list[str]:
        """End requests and free their blocks at once; returns those that were there."""
        ended = []
        for request_id in request_ids:
            request = self.requests.get(request_id)
            if request is not None:
                self._end(request)
                ended.append(request_id)
        return ended

    def schedule(self) -> SchedulerOutput:
        """Decide the next step."""
        step = _Step(self.config.scheduler.max_num_batched_tokens)
        preempted = self._schedule_running(step)
        if not preempted:
            self._schedule_waiting(step)
        removed, self._removed = self._removed, []
        self._under_way.append(
            {
                request_id: self._advance(request_id, n)
                for request_id, n in step.num_scheduled.items()
            }
        )
        return SchedulerOutput(step.new, list(step.updates.values()), step.num_scheduled, removed)

    def update(self, step: SchedulerOutput, result: RunnerOutput) -> list[EngineOutput]:
        """Take in what a step computed: the oldest one that is under way."""
        outputs = []
        for request_id, part in self._under_way.popleft().items():
            request = part.request
            # It may have ended since, and its name may be another's by now.
            if self.requests.get(request_id) is not request:
                continue
            self.stats.prompt_tokens += part.prompt_tokens
            request.num_pending -= part.samples
            output = self._output_of(request, result)
            if output is not None:
                outputs.append(output)
        return outputs

    def cancel(self) -> None:
        """Undo the newest step that is under way: it failed before anything ran."""
        for part in self._under_way.pop().values():
            part.request.num_pending -= part.samples
            part.request.num_computed = min(part.request.num_computed, part.before)

    def _advance(self, request_id: str, count: int) -> _Scheduled:
        request = self.requests[request_id]
        before = request.num_computed
        request.num_computed += count
        samples = request.num_computed == request.num_tokens + request.num_pending
        request.num_pending += samples
        return _Scheduled(request, before, count, samples)

    def _schedule_running(self, step: _Step) -> bool:
        """Give running requests their tokens; returns whether one had to be preempted."""
        preempted = False
        index = 0
        while index < len(self.running) and step.budget > 0:
            request = self.running[index]
            count = min(request.num_schedulable, step.budget)
            if count == 0:
                index += 1
                continue
            known = self.kv_cache.num_blocks_of(request.request_id)
            while not self.kv_cache.allocate(request, count):
                preempted = True
                victim = max(self.running, key=self.waiting.key)
                victim_index = self.running.index(victim)
                self._preempt(victim, step)
                if victim is request:
                    return True
                index -= victim_index < index
            blocks = self.kv_cache.new_block_ids(request.request_id, known)
            step.updates[request.request_id] = ScheduledUpdate(
                request.request_id, request.num_computed, blocks
            )
            step.num_scheduled[request.request_id] = count
            step.budget -= count
            index += 1
        return preempted

    def _schedule_waiting(self, step: _Step) -> None:
        limits = self.config.scheduler
        while self.waiting and step.budget > 0 and len(self.running) < limits.max_num_seqs:
            request = self.waiting.peek()
            if request.num_pending:
                return
            hit = self.kv_cache.find_prefix(request)
            count = request.num_tokens - hit.num_tokens
            if count > step.budget:
                if not limits.enable_chunked_prefill:
                    return
                count = step.budget
            if not self.kv_cache.allocate(request, count, hit):
                return
            self.waiting.pop()
            if request.num_cached_tokens is None:
                request.num_cached_tokens = hit.num_tokens
                request.scheduled_time = time.time()
                self.kv_cache.count_query(request.num_tokens, hit)
            request.num_computed = hit.num_tokens
            request.status = RequestStatus.RUNNING
            self.running.append(request)
            step.new.append(self._describe(request))
            step.num_scheduled[request.request_id] = count
            step.budget -= count

    def _describe(self, request: Request) -> ScheduledRequest:
        stop_ids = set(request.params.stop_token_ids)
        if not request.params.ignore_eos:
            stop_ids |= request.eos_token_ids
        return ScheduledRequest(
            request_id=request.request_id,
            token_ids=list(request.token_ids),
            num_prompt_tokens=request.num_prompt_tokens,
            num_computed=request.num_computed,
            block_ids=self.kv_cache.block_ids(request.request_id),
            params=request.params,
            stop_token_ids=sorted(stop_ids),
            bad_words_token_ids=self._bad_words.get(request.request_id, []),
            prompt_logprobs_from=request.prompt_logprobs_sent,
            pooling=request.pooling,
        )

    def _preempt(self, request: Request, step: _Step) -> None:
        self.kv_cache.free(request)
        step.take_back(request.request_id)
        self.running.remove(request)
        request.status = RequestStatus.PREEMPTED
        request.num_computed = 0
        request.num_preemptions += 1
        self.stats.num_preemptions += 1
        self.waiting.push(request)
        self._removed.append(request.request_id)
        logger.debug("preempted request %s: no free KV block", request.request_id)

    def _output_of(self, request: Request, result: RunnerOutput) -> EngineOutput | None:
        """The step's output for one request; ends it where it is complete."""
        request_id = request.request_id
        if request_id in result.failed:
            self._end(request)
            return failed_output(request_id, result.failed[request_id])
        if request.pooling is not None:
            return self._pooled_output(request, result.pooled.get(request_id))
        prompt_logprobs = result.prompt_logprobs.get(request_id)
        request.prompt_logprobs_sent += len(prompt_logprobs or ())
        token_id = result.sampled.get(request_id)
        if token_id is None and prompt_logprobs is None:
            return None
        tokens: list[int] = []
        end: tuple[FinishReason, int | None] | None = None
        if token_id is not None and request.max_tokens == 0:
            end = FinishReason.LENGTH, None
        elif token_id is not None:
            request.append(token_id)
            self.stats.generation_tokens += 1
            tokens = [token_id]
            end = request.end_after(token_id)
        logprobs = result.logprobs.get(request_id)
        output = EngineOutput(
            request_id=request_id,
            new_token_ids=tokens,
            finish_reason=end[0].value if end else None,
            stop_reason=end[1] if end else None,
            logprobs=[logprobs] if logprobs is not None and tokens else None,
            prompt_logprobs=prompt_logprobs,
            num_cached_tokens=request.num_cached_tokens or 0,
            num_preemptions=request.num_preemptions,
            scheduled_time=request.scheduled_time,
        )
        if end:
            self._end(request)
        return output

    def _pooled_output(self, request: Request, pooled: Vectors | None) -> EngineOutput | None:
        """The output of a request that pools, which ends it; None where its prompt goes on."""
        if pooled is None:
            return None
        self._end(request)
        return EngineOutput(
            request_id=request.request_id,
            new_token_ids=[],
            finish_reason=FinishReason.STOP.value,
            num_cached_tokens=request.num_cached_tokens or 0,
            num_preemptions=request.num_preemptions,
            scheduled_time=request.scheduled_time,
            pooled=pooled,
        )

    def _end(self, request: Request) -> None:
        self.kv_cache.free(request)
        if request.status is RequestStatus.RUNNING:
            self.running.remove(request)
            self._removed.append(request.request_id)
        else:
            self.waiting.remove(request)
        request.status = RequestStatus.FINISHED
        del self.requests[request.request_id]
        self._bad_words.pop(request.request_id, None)
