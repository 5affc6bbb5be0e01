"""The resolved configuration of one engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from runtime.core.config.hf_config import HFConfig
from runtime.core.config.quantization import QuantizationConfig
from runtime.core.pooling.config import PoolingConfig

if TYPE_CHECKING:
    import torch

    from runtime.core.platform.interface import Platform


class SchedulingPolicy(StrEnum):
    """Order in which waiting requests are taken."""

    FCFS = "fcfs"
    PRIORITY = "priority"


@dataclass(frozen=True)
class ModelConfig:
    """What is run."""

    model: str
    """Path of a Hugging Face directory or of one GGUF file."""
    tokenizer: str | None
    """Where the tokenizer is, if not with the model."""
    skip_tokenizer_init: bool
    hf: HFConfig
    generation: HFConfig
    """``generation_config.json``: default sampling values and end-of-sequence ids."""
    architecture: str
    """The registered name of the model class."""
    dtype: torch.dtype
    """Dtype of weights and activations."""
    max_model_len: int
    """Most tokens of prompt and output together."""
    vocab_size: int
    seed: int
    enforce_eager: bool
    max_logprobs: int
    """Most log-probabilities a token that a request may ask for; -1 is no limit."""
    quantization: QuantizationConfig | None = None
    """Which weights are blocks of few bits; None: all are dense."""
    pooling: PoolingConfig | None = None
    """How prompts become embeddings; None: they are continued."""


@dataclass(frozen=True)
class LoadConfig:
    """How weights come into the model."""

    load_format: str
    """``auto``, ``safetensors``, ``gguf`` or ``dummy``."""
    use_tqdm: bool
    """Whether loading shows a progress bar."""


@dataclass(frozen=True)
class CacheConfig:
    """The paged KV cache."""

    block_size: int
    """Tokens a block holds."""
    enable_prefix_caching: bool
    num_kv_blocks_override: int | None
    """Blocks in the pool whatever the memory, for tests."""
    kv_cache_dtype: str
    """``auto`` is the model's dtype."""
    memory_utilization: float | None = None
    """Share of the device's memory for the whole engine; None leaves it to the platform."""


@dataclass(frozen=True)
class SchedulerConfig:
    """Continuous batching."""

    max_num_batched_tokens: int
    """Tokens that one step may compute."""
    max_num_seqs: int
    """Requests that run at once."""
    policy: SchedulingPolicy
    enable_chunked_prefill: bool
    async_scheduling: bool = False
    """Whether a step is scheduled while the one before it runs."""


@dataclass(frozen=True)
class ParallelConfig:
    """How many workers share the model."""

    tensor_parallel_size: int = 1
    device_ids: tuple[int, ...] = (0,)
    """The platform's device index of each worker."""


@dataclass(frozen=True)
class StructuredOutputsConfig:
    """What binds outputs to a form."""

    backend: str = "auto"
    """The registered name of the backend; ``auto`` is the built-in one."""


@dataclass(frozen=True)
class RuntimeConfig:
    """Everything an engine is built from. The platform is part of it: there is no global one."""

    platform: Platform
    model: ModelConfig
    load: LoadConfig
    cache: CacheConfig
    scheduler: SchedulerConfig
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    structured_outputs: StructuredOutputsConfig = field(default_factory=StructuredOutputsConfig)
    additional_config: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Settings of plugins, by plugin name; the core does not read them."""

    def device(self, rank: int = 0) -> torch.device:
        """The torch device of a worker."""
        return self.platform.devices.device(self.parallel.device_ids[rank])

    def __getstate__(self) -> dict[str, Any]:
        """Pickle with a plain dict: a mapping proxy does not pickle."""
        return {**self.__dict__, "additional_config": dict(self.additional_config)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore, read-only again."""
        proxy = MappingProxyType(state["additional_config"])
        self.__dict__.update(state, additional_config=proxy)
