"""A worker: one device, the model on it, and the memory that the KV cache gets."""

from __future__ import annotations

import functools
import logging
import pkgutil
import time
from concurrent.futures import Future

from runtime.core.config.runtime import RuntimeConfig
from runtime.core.kv_cache.spec import KVCacheLayout, KVCacheSpec
from runtime.core.loader.checkpoint import Checkpoint
from runtime.core.loader.load import load_weights
from runtime.core.messages import PendingOutput, SchedulerOutput
from runtime.core.models.registry import ModelRegistry
from runtime.core.platform.interface import MemoryUse
from runtime.core.runner.model_runner import ModelRunner
from runtime.core.structured_output.backend import load_engine_backend
from runtime.core.structured_output.params import Constraint
from runtime.core.structured_output.store import GrammarStore

logger = logging.getLogger(__name__)


class Worker:
    """Owns a device. A platform subclasses it where starting or measuring differs."""

    def __init__(self, config: RuntimeConfig, rank: int = 0) -> None:
        self.config = config
        self.rank = rank
        self.index = config.parallel.device_ids[rank]
        self.platform = config.platform
        self.device = config.device(rank)

    def start(self) -> None:
        """Make the device ready in this process."""
        self.platform.devices.activate(self.index)
        line = self.platform.start_worker(self.config, self.index)
        if line:
            logger.info("%s: %s", self.platform.name, line)

    def load_model(self, checkpoint: Checkpoint) -> None:
        """Build the model on the device and fill it from the checkpoint."""
        started = time.perf_counter()
        model_class = ModelRegistry.load(self.config.model.architecture)
        model = model_class(config=self.config)
        load_weights(model, checkpoint, self.config)
        self.platform.after_loading(model, self.config)
        model.eval()
        self.weight_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
        runner_class = pkgutil.resolve_name(self.platform.runner_class)
        self.runner: ModelRunner = runner_class(self.config, model, self.device)
        self.grammars = GrammarStore(functools.partial(load_engine_backend, self.config))
        self.runner.grammars = self.grammars
        logger.info(
            "loaded %s: %.2f GiB of weights in %s, %.1f s",
            self.config.model.architecture,
            self.weight_bytes / 2**30,
            str(self.config.model.dtype).removeprefix("torch."),
            time.perf_counter() - started,
        )

    def kv_cache_specs(self) -> dict[str, KVCacheSpec]:
        """What each layer keeps of its tokens."""
        return self.runner.kv_cache_specs()

    def peak_activation_bytes(self) -> int:
        """Most bytes of activations in one step.

        Default: an estimate from the model's shape, without running it: the widest layer's
        inputs and outputs for a full token budget, and float32 logits of all requests with the
        two copies that sampling makes.
        """
        hf, limits = self.config.model.hf, self.config.scheduler
        width = 4 * int(hf.hidden_size) + 3 * int(hf.get("intermediate_size", hf.hidden_size))
        tokens = limits.max_num_batched_tokens * width * self.config.model.dtype.itemsize
        return tokens + 3 * 4 * limits.max_num_seqs * self.config.model.vocab_size

    def kv_cache_bytes(self, wanted: int) -> int:
        """Bytes that the platform gives the KV cache, of the ``wanted`` that could be used."""
        use = MemoryUse(self.weight_bytes, self.peak_activation_bytes(), wanted)
        return self.platform.memory.kv_cache_bytes(self.config, use, self.index)

    def initialize_cache(self, layout: KVCacheLayout, max_model_len: int) -> None:
        """Allocate the KV cache for requests of up to ``max_model_len`` tokens."""
        self.runner.initialize_cache(layout, max_model_len)

    def submit(self, step: SchedulerOutput) -> PendingOutput:
        """Hand one step to the device; the result need not be there yet."""
        return self.runner.submit(step)

    def prepare_grammar(self, constraint: Constraint) -> Future[None]:
        """Compile the constraint of a request that is to come, beside the steps."""
        return self.grammars.prepare(constraint)

    def shutdown(self) -> None:
        """Let go of the model and the cache."""
        self.grammars.shutdown()
        self.runner = None  # type: ignore[assignment]
        self.platform.memory.empty_cache()
