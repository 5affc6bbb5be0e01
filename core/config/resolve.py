"""From what the user asked to the one frozen configuration: user, then platform, then model."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch

from runtime.core.config.args import EngineArgs
from runtime.core.config.quantization import QuantizationConfig
from runtime.core.config.runtime import (
    CacheConfig,
    LoadConfig,
    ModelConfig,
    ParallelConfig,
    RuntimeConfig,
    SchedulerConfig,
    SchedulingPolicy,
    StructuredOutputsConfig,
)
from runtime.core.errors import ConfigError
from runtime.core.models.registry import ModelRegistry, first_position
from runtime.core.platform.interface import Platform, PlatformCapabilities
from runtime.core.pooling.config import PoolingConfig, check_steps, resolve_pooling
from runtime.core.quantization.block_formats import LOADABLE
from runtime.core.quantization.scheme import BLOCKS
from runtime.core.structured_output.registry import qualified_name

if TYPE_CHECKING:
    from runtime.core.loader.checkpoint import Checkpoint

logger = logging.getLogger(__name__)

DEFAULT_MAX_BATCHED_TOKENS = 2048
DEFAULT_MAX_SEQS = 128
DEFAULT_MAX_MODEL_LEN = 2048
"""For a checkpoint that names no limit."""


def resolve_config(args: EngineArgs, platform: Platform, checkpoint: Checkpoint) -> RuntimeConfig:
    """Fill in what the user left open, and refuse what cannot be.

    Raises:
        ConfigError: a value is out of range or contradicts another; the message names it.
        ModelLoadError: the architecture is unknown.
    """
    model = _model_config(args, platform, checkpoint)
    cache = _cache_config(args, platform.capabilities)
    scheduler = _scheduler_config(args, model, platform)
    config = RuntimeConfig(
        platform=platform,
        model=model,
        load=LoadConfig(args.load_format, args.use_tqdm_on_load),
        cache=cache,
        scheduler=scheduler,
        parallel=_parallel_config(args, platform),
        structured_outputs=_structured_outputs_config(args),
        additional_config=_additional_config(args.additional_config, platform),
    )
    config = _apply_policy(config, args)
    check_steps(config)
    return config


def _model_config(args: EngineArgs, platform: Platform, checkpoint: Checkpoint) -> ModelConfig:
    hf = checkpoint.config
    architecture = ModelRegistry.resolve_name(hf.get("architectures", ()))
    model_class = ModelRegistry.load(architecture)
    pooling = resolve_pooling(args, checkpoint, model_class)
    positions = hf.get("max_position_embeddings")
    if positions:
        positions = int(positions) - first_position(model_class, hf)
    quantization = resolve_quantization(args.quantization, platform, checkpoint)
    return ModelConfig(
        model=args.model,
        tokenizer=args.tokenizer,
        skip_tokenizer_init=args.skip_tokenizer_init,
        hf=hf,
        generation=checkpoint.generation_config,
        architecture=architecture,
        dtype=resolve_dtype(args.dtype, hf, platform, quantization),
        max_model_len=_max_model_len(args, positions, pooling),
        vocab_size=int(hf.vocab_size),
        seed=args.seed,
        enforce_eager=args.enforce_eager,
        max_logprobs=args.max_logprobs,
        quantization=quantization,
        pooling=pooling,
    )


def resolve_quantization(
    asked: str | None, platform: Platform, checkpoint: Checkpoint
) -> QuantizationConfig | None:
    """Which weights are kept as blocks.

    Unasked, those that the checkpoint stores so, where the platform has kernels for them.
    """
    stored = checkpoint.block_formats()
    if asked == "none" or (asked is None and not stored):
        return None
    if asked is None:
        known = platform.policy.linear_scheme(BLOCKS) is not None
        return QuantizationConfig(stored) if known else None
    if asked == "gguf":
        if not stored:
            raise ConfigError(
                f"quantization='gguf': {checkpoint.path} has no quantized blocks; choose one of "
                f"{', '.join(LOADABLE)} to quantize its weights while they load"
            )
        return QuantizationConfig(stored)
    if asked not in LOADABLE:
        choices = ", ".join(("none", "gguf", *LOADABLE))
        raise ConfigError(f"quantization={asked!r} must be one of {choices}")
    method = checkpoint.config.get("quantization_config")
    if method is not None:
        raise ConfigError(
            f"quantization={asked!r}: the checkpoint is quantized already "
            f"({method.get('quant_method', 'quantization_config')}); leave the argument out"
        )
    return QuantizationConfig({}, asked)


def resolve_dtype(
    asked: str, hf: Mapping[str, Any], platform: Platform, quantization: QuantizationConfig | None
) -> torch.dtype:
    """The dtype that the model runs in.

    ``auto`` is the checkpoint's own where the platform has it, else the platform's first. A
    checkpoint that names none is float32, but for blocks that stay as they are: there the
    platform says.
    """
    supported = platform.capabilities.dtypes
    if asked == "auto":
        in_blocks = quantization is not None and bool(quantization.stored)
        unnamed = platform.capabilities.quantized_dtype if in_blocks else "float32"
        stored = str(hf.get("dtype") or hf.get("torch_dtype") or unnamed).removeprefix("torch.")
        name = stored if stored in supported else supported[0]
        if name != stored:
            logger.warning(
                "dtype: the checkpoint is %s, which platform %s does not run; using %s",
                stored,
                platform.name,
                name,
            )
    elif asked in supported:
        name = asked
    else:
        raise ConfigError(
            f"dtype={asked!r} is not one that platform {platform.name!r} runs "
            f"(auto, {', '.join(supported)})"
        )
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype


def _max_model_len(args: EngineArgs, own: int | None, pooling: PoolingConfig | None) -> int:
    asked = args.max_model_len
    if asked is None or asked == "auto":
        most = own or DEFAULT_MAX_MODEL_LEN
        meant = None if pooling is None else pooling.max_seq_length
        return most if meant is None else min(most, meant)
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < 1:
        raise ConfigError(f"max_model_len={asked!r} must be a positive integer or 'auto'")
    if own and asked > own:
        raise ConfigError(
            f"max_model_len={asked} exceeds the {own} positions the model was made for "
            "(max_position_embeddings)"
        )
    return asked


_CACHE_DTYPE_ALIASES: Mapping[str, str] = {"fp8": "float8_e4m3fn", "fp8_e4m3": "float8_e4m3fn"}
"""Names that users know, of torch's dtypes."""


def _cache_config(args: EngineArgs, capabilities: PlatformCapabilities) -> CacheConfig:
    size = capabilities.kv_block_size if args.block_size is None else args.block_size
    allowed = capabilities.kv_block_sizes
    if allowed is not None and size not in allowed:
        raise ConfigError(f"block_size={size} must be one of {', '.join(map(str, allowed))}")
    if size < 1 or size & (size - 1):
        raise ConfigError(f"block_size={size} must be a power of two")
    dtype = _CACHE_DTYPE_ALIASES.get(args.kv_cache_dtype, args.kv_cache_dtype)
    if dtype not in capabilities.kv_cache_dtypes:
        choices = ", ".join(capabilities.kv_cache_dtypes)
        raise ConfigError(f"kv_cache_dtype={args.kv_cache_dtype!r} must be one of {choices}")
    override = _one_of_two(args, "num_kv_blocks_override", "num_gpu_blocks_override")
    if override is not None and override < 1:
        raise ConfigError(f"num_kv_blocks_override={override} must be at least 1")
    share = _one_of_two(args, "memory_utilization", "gpu_memory_utilization")
    if share is not None and not 0 < share <= 1:
        raise ConfigError(f"memory_utilization={share} must be above 0 and at most 1")
    caching = True if args.enable_prefix_caching is None else args.enable_prefix_caching
    return CacheConfig(size, caching, override, dtype, share)


def _one_of_two(args: EngineArgs, name: str, alias: str) -> Any:
    """A setting that has two names; ConfigError where they differ."""
    value, other = getattr(args, name), getattr(args, alias)
    if value is not None and other is not None and value != other:
        raise ConfigError(f"{name}={value} and {alias}={other} differ: they are one setting")
    return other if value is None else value


def _scheduler_config(args: EngineArgs, model: ModelConfig, platform: Platform) -> SchedulerConfig:
    max_seqs = DEFAULT_MAX_SEQS if args.max_num_seqs is None else args.max_num_seqs
    if max_seqs < 1:
        raise ConfigError(f"max_num_seqs={max_seqs} must be at least 1")
    tokens = args.max_num_batched_tokens
    whole = model.pooling is not None and model.pooling.encoder
    if tokens is None:
        tokens = max(DEFAULT_MAX_BATCHED_TOKENS, max_seqs)
        if whole or not args.enable_chunked_prefill:
            tokens = max(tokens, model.max_model_len)
    if tokens < max_seqs:
        raise ConfigError(
            f"max_num_batched_tokens={tokens} must be at least max_num_seqs={max_seqs}: "
            "each running request needs a token a step"
        )
    if not args.enable_chunked_prefill and tokens < model.max_model_len:
        raise ConfigError(
            f"max_num_batched_tokens={tokens} must be at least max_model_len="
            f"{model.max_model_len} without chunked prefill"
        )
    try:
        policy = SchedulingPolicy(args.scheduling_policy)
    except ValueError:
        choices = ", ".join(SchedulingPolicy)
        raise ConfigError(
            f"scheduling_policy={args.scheduling_policy!r} must be one of {choices}"
        ) from None
    ahead = args.async_scheduling
    if ahead is None:
        ahead = platform.queue is not None
    chunked = args.enable_chunked_prefill and not whole
    return SchedulerConfig(tokens, max_seqs, policy, chunked, ahead)


def _parallel_config(args: EngineArgs, platform: Platform) -> ParallelConfig:
    size, available = args.tensor_parallel_size, platform.devices.count()
    if size != 1:
        raise ConfigError(
            f"tensor_parallel_size={size}: this version runs one worker, so it must be 1"
        )
    if args.device_id is None:
        return ParallelConfig(size, tuple(platform.policy.place_workers(size, available)))
    if not 0 <= args.device_id < available:
        raise ConfigError(
            f"device_id={args.device_id}: platform {platform.name!r} has {available} device(s)"
        )
    return ParallelConfig(size, (args.device_id,))


def _structured_outputs_config(args: EngineArgs) -> StructuredOutputsConfig:
    qualified_name(args.structured_outputs_backend)
    return StructuredOutputsConfig(args.structured_outputs_backend)


def _additional_config(
    given: Mapping[str, Any] | None, platform: Platform
) -> Mapping[str, Mapping[str, Any]]:
    """Settings of plugins by name; the platform's own are checked by the platform."""
    settings = dict(given or {})
    for name, values in settings.items():
        if not isinstance(values, Mapping):
            raise ConfigError(f"additional_config[{name!r}] must map names to values")
    own = platform.policy.additional_config(settings.get(platform.name, {}))
    return MappingProxyType({**settings, platform.name: own} if own else settings)


# Fields that a platform's policy may override, and the argument by which the user sets each.
_OVERRIDABLE: Mapping[str, str] = {
    "scheduler.max_num_seqs": "max_num_seqs",
    "scheduler.max_num_batched_tokens": "max_num_batched_tokens",
    "cache.block_size": "block_size",
    "cache.enable_prefix_caching": "enable_prefix_caching",
    "model.max_model_len": "max_model_len",
}


def _apply_policy(config: RuntimeConfig, args: EngineArgs) -> RuntimeConfig:
    """Take over the platform's overrides of what the user left unset."""
    overrides = config.platform.policy.config_overrides(config)
    for path, value in overrides.items():
        if path not in _OVERRIDABLE:
            raise ConfigError(
                f"platform {config.platform.name!r} overrides {path!r}, which no platform may "
                f"(allowed: {', '.join(_OVERRIDABLE)})"
            )
        if getattr(args, _OVERRIDABLE[path]) is not None:
            continue
        section, field = path.split(".")
        changed = dataclasses.replace(getattr(config, section), **{field: value})
        config = dataclasses.replace(config, **{section: changed})
        logger.info("platform %s sets %s=%r", config.platform.name, path, value)
    return config
