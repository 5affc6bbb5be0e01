"""The engine core: scheduler and executor in a loop."""

from __future__ import annotations

import dataclasses
import gc
import logging
import pkgutil
from collections import deque
from collections.abc import Iterable
from concurrent import futures
from concurrent.futures import Future

from runtime.core.config.runtime import RuntimeConfig
from runtime.core.errors import ConfigError
from runtime.core.kv_cache.spec import (
    KVCacheGroup,
    KVCacheLayout,
    group_layers,
    longest_that_fits,
    plan_layout,
    request_bytes,
)
from runtime.core.loader.checkpoint import Checkpoint
from runtime.core.messages import (
    EngineOutput,
    EngineRequest,
    PendingOutput,
    RunnerOutput,
    SchedulerOutput,
)
from runtime.core.runner.executor import Executor
from runtime.core.scheduler.scheduler import Scheduler, failed_output
from runtime.core.structured_output.progress import grammar_failure

logger = logging.getLogger(__name__)

PREPARING_WAIT_SECONDS = 0.01


class EngineCore:
    """Takes validated requests, gives tokens. Knows neither text nor clients."""

    def __init__(
        self, config: RuntimeConfig, checkpoint: Checkpoint, *, lower_max_model_len: bool = False
    ) -> None:
        """Load the model and size the KV cache.

        ``lower_max_model_len``: where the memory does not hold one request of that length, lower
        it with a warning rather than refuse.
        """
        executor_class = pkgutil.resolve_name(config.platform.executor_class)
        self.executor: Executor = executor_class(config, checkpoint)
        groups = group_layers(self.executor.kv_cache_specs())
        layout, max_model_len = size_cache(
            config, groups, self.executor, lower_max_model_len=lower_max_model_len
        )
        if max_model_len != config.model.max_model_len:
            model = dataclasses.replace(config.model, max_model_len=max_model_len)
            config = dataclasses.replace(config, model=model)
        self.config = config
        self.executor.initialize_cache(layout, max_model_len)
        self.longest_request = longest_that_fits(
            layout, max_model_len, config.scheduler.max_num_batched_tokens
        )
        """Tokens of prompt and output that one request may have."""
        scheduler_class = pkgutil.resolve_name(config.platform.scheduler_class)
        self.scheduler: Scheduler = scheduler_class(config, layout)
        self._under_way: deque[tuple[SchedulerOutput, PendingOutput]] = deque()
        self._preparing: dict[str, tuple[EngineRequest, Future[None]]] = {}
        """Requests whose grammars are being compiled."""
        self._depth = 2 if config.scheduler.async_scheduling else 1
        # What is there now stays: a collector that goes through it stops a step for milliseconds.
        gc.collect()
        gc.freeze()
        self.summary = _cache_summary(
            layout, max_model_len, config.scheduler.max_num_batched_tokens
        )
        """The KV cache in one line."""
        logger.info("%s", self.summary)

    @property
    def has_requests(self) -> bool:
        """Whether any request is unfinished."""
        return self.scheduler.has_requests or bool(self._preparing)

    @property
    def num_waiting(self) -> int:
        """Requests that have not begun, or were preempted."""
        scheduler = self.scheduler
        return len(self._preparing) + len(scheduler.requests) - len(scheduler.running)

    def add_request(self, request: EngineRequest) -> None:
        """Queue a request, once its grammar is compiled if it has one."""
        wanted = request.params.structured_outputs
        if wanted is None:
            self.scheduler.add(request)
            return
        if request.request_id in self._preparing or request.request_id in self.scheduler.requests:
            raise ValueError(f"request id {request.request_id!r} is already in use")
        ready = self.executor.prepare_grammar(wanted.constraint)
        self._preparing[request.request_id] = (request, ready)

    def abort(self, request_ids: Iterable[str]) -> None:
        """End requests and free their blocks at once."""
        request_ids = list(request_ids)
        for request_id in request_ids:
            self._preparing.pop(request_id, None)
        self.scheduler.abort(request_ids)

    def step(self) -> list[EngineOutput]:
        """Hand one step to the executor and return what the oldest one gave.

        With asynchronous scheduling one step runs while the next is prepared, so the first call
        returns nothing yet.
        """
        failed = self._admit_prepared()
        if self._preparing and not self._under_way and not self.scheduler.has_work_for_runner:
            # Nothing else to do than to wait; not for long, for others may come.
            futures.wait([ready for _, ready in self._preparing.values()], PREPARING_WAIT_SECONDS)
            return failed
        return failed + self._step()

    def _step(self) -> list[EngineOutput]:
        step = self.scheduler.schedule()
        try:
            pending = self.executor.submit(step)
        except BaseException:
            self.scheduler.cancel()
            self._distrust_cache()
            raise
        self._under_way.append((step, pending))
        if step.num_scheduled and len(self._under_way) < self._depth:
            return []
        return self._settle()

    def _settle(self) -> list[EngineOutput]:
        step, pending = self._under_way.popleft()
        try:
            result: RunnerOutput = pending.result()
        except BaseException:
            # Later steps have begun with what this one was to give.
            for _ in range(len(self._under_way) + 1):
                self.scheduler.cancel()
            self._under_way.clear()
            self._distrust_cache()
            raise
        return self.scheduler.update(step, result)

    def _admit_prepared(self) -> list[EngineOutput]:
        """Queue requests whose grammars are compiled; returns the end of those that failed."""
        failed = []
        for request_id, (request, ready) in list(self._preparing.items()):
            if not ready.done():
                continue
            del self._preparing[request_id]
            error = ready.exception()
            if error is None:
                self.scheduler.add(request)
            else:
                failed.append(failed_output(request_id, grammar_failure(error)))
        return failed

    def _distrust_cache(self) -> None:
        # Blocks were offered to other requests before they were computed.
        self.scheduler.kv_cache.reset_prefix_cache()

    def shutdown(self) -> None:
        """End the executor."""
        gc.unfreeze()
        self.executor.shutdown()


def size_cache(
    config: RuntimeConfig,
    groups: tuple[KVCacheGroup, ...],
    executor: Executor,
    *,
    lower_max_model_len: bool,
) -> tuple[KVCacheLayout, int]:
    """The pools' sizes, and the longest request that they hold up to ``max_model_len``."""
    length, step_tokens = config.model.max_model_len, config.scheduler.max_num_batched_tokens
    budget, override = 0, config.cache.num_kv_blocks_override
    if groups and override is None:
        # One block a group is reserved, and a request's last block is rarely full.
        wanted = config.scheduler.max_num_seqs * request_bytes(groups, length, step_tokens)
        budget = executor.kv_cache_bytes(wanted + sum(group.block_bytes for group in groups))
    layout = plan_layout(groups, budget, length, step_tokens, override)
    fitting = longest_that_fits(layout, length, step_tokens)
    if fitting >= length:
        return layout, length
    have = f"{override} blocks" if override is not None else f"{budget / 2**30:.2f} GiB"
    if fitting < 1:
        raise ConfigError(f"the KV cache has {have}, which does not hold a single token")
    if not lower_max_model_len:
        raise ConfigError(
            f"max_model_len={length} does not fit: the KV cache has {have}, which holds one "
            f"request of {fitting} tokens. Pass max_model_len={fitting} or less, or 'auto'"
        )
    logger.warning(
        "max_model_len lowered from %d to %d: the KV cache has %s", length, fitting, have
    )
    return layout, fitting


def _cache_summary(layout: KVCacheLayout, max_model_len: int, step_tokens: int) -> str:
    if not layout.groups:
        return "KV cache: none, since the model is an encoder"
    needs = [group.spec.max_blocks(max_model_len, step_tokens) for group in layout.groups]
    full = [(n - 1) / need for n, need in zip(layout.num_blocks, needs, strict=True)]
    blocks = "+".join(str(count - 1) for count in layout.num_blocks)
    sizes = "/".join(str(group.spec.block_size) for group in layout.groups)
    return (
        f"KV cache: {layout.total_bytes / 2**30:.2f} GiB, {blocks} blocks of {sizes} tokens; "
        f"holds {min(full, default=0.0):.1f} requests of {max_model_len} tokens"
    )
