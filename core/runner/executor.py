"""Executors: how the engine core reaches its workers."""

from __future__ import annotations

import pkgutil
from concurrent.futures import Future
from typing import Protocol

from runtime.core.config.runtime import RuntimeConfig
from runtime.core.kv_cache.spec import KVCacheLayout, KVCacheSpec
from runtime.core.loader.checkpoint import Checkpoint
from runtime.core.messages import PendingOutput, SchedulerOutput
from runtime.core.runner.worker import Worker
from runtime.core.structured_output.params import Constraint


class Executor(Protocol):
    """One or several workers that act as one."""

    def kv_cache_specs(self) -> dict[str, KVCacheSpec]:
        """What each layer keeps of its tokens."""

    def kv_cache_bytes(self, wanted: int) -> int:
        """Bytes for the KV cache on the device that has the least."""

    def initialize_cache(self, layout: KVCacheLayout, max_model_len: int) -> None:
        """Allocate the KV cache, for requests up to that length, on every worker."""

    def submit(self, step: SchedulerOutput) -> PendingOutput:
        """Hand over one step; need not wait for it."""

    def prepare_grammar(self, constraint: Constraint) -> Future[None]:
        """Compile the constraint of a request that is to come; done on every worker."""

    def shutdown(self) -> None:
        """End the workers."""


class UniprocExecutor:
    """One worker in the calling process."""

    def __init__(self, config: RuntimeConfig, checkpoint: Checkpoint) -> None:
        worker_class = pkgutil.resolve_name(config.platform.worker_class)
        self._worker: Worker = worker_class(config)
        self._worker.start()
        self._worker.load_model(checkpoint)

    def kv_cache_specs(self) -> dict[str, KVCacheSpec]:
        """The worker's."""
        return self._worker.kv_cache_specs()

    def kv_cache_bytes(self, wanted: int) -> int:
        """The worker's."""
        return self._worker.kv_cache_bytes(wanted)

    def initialize_cache(self, layout: KVCacheLayout, max_model_len: int) -> None:
        """Allocate it on the worker."""
        self._worker.initialize_cache(layout, max_model_len)

    def submit(self, step: SchedulerOutput) -> PendingOutput:
        """Hand it to the worker."""
        return self._worker.submit(step)

    def prepare_grammar(self, constraint: Constraint) -> Future[None]:
        """Have the worker compile it."""
        return self._worker.prepare_grammar(constraint)

    def shutdown(self) -> None:
        """End the worker."""
        self._worker.shutdown()
