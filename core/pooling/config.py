"""How a model's hidden states become embeddings, resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.core.errors import ConfigError, RequestError
from runtime.core.models.registry import is_encoder, pools_only
from runtime.core.pooling.params import PoolingType
from runtime.core.pooling.sentence_transformers import read_sentence_transformers

if TYPE_CHECKING:
    from runtime.core.config.args import EngineArgs
    from runtime.core.config.hf_config import HFConfig
    from runtime.core.config.runtime import ModelConfig, RuntimeConfig
    from runtime.core.loader.checkpoint import Checkpoint

SEQUENCE_TYPES = (PoolingType.MEAN, PoolingType.CLS, PoolingType.LAST)
"""Those that give one vector for a prompt."""


@dataclass(frozen=True)
class PoolingConfig:
    """What an engine that pools does with hidden states."""

    type: PoolingType
    """One of :data:`SEQUENCE_TYPES`."""
    normalize: bool
    hidden_size: int
    """Elements of an embedding."""
    encoder: bool
    """Whether tokens see those after them, so that a prompt is computed in one step."""
    matryoshka: tuple[int, ...] | None = None
    """Dimensions that an embedding may be cut to; empty: to any; None: to none."""
    lower_case: bool = False
    """Whether texts are lower-cased before they are tokenised."""
    max_seq_length: int | None = None
    """Tokens that the embeddings were made for, where that is fewer than the model's positions."""


def resolve_pooling(args: EngineArgs, checkpoint: Checkpoint, model: type) -> PoolingConfig | None:
    """How the engine pools; None where it generates.

    Unasked, a model class that cannot generate pools, and so does any model with the files of
    sentence-transformers.

    Raises:
        ConfigError: the model cannot do what ``runner`` or ``convert`` asks.
        ModelLoadError: the checkpoint says that it pools in a way that is not supported.
    """
    only, name = pools_only(model), model.__name__
    _check_choices(args, name, only)
    described = None
    if args.runner != "generate":
        described = read_sentence_transformers(Path(checkpoint.path))
    asked = args.runner == "pooling" or args.convert == "embed"
    if not (asked or only or described is not None):
        if args.pooler_config is not None:
            raise ConfigError(
                f"pooler_config: {name} generates; pass runner='pooling' to have embeddings"
            )
        return None
    if args.convert == "none" and not only:
        raise ConfigError(
            f"convert='none': {name} generates; pass convert='embed' to have embeddings"
        )
    hf = checkpoint.config
    if not is_encoder(model) and not hf.get("is_causal", True):
        raise ConfigError(
            f"{name} of {checkpoint.path} attends in both directions (is_causal=false in its "
            "config.json), which is not supported for this architecture"
        )
    config = PoolingConfig(
        type=PoolingType.CLS if is_encoder(model) else PoolingType.LAST,
        normalize=True,
        hidden_size=int(hf.hidden_size),
        encoder=is_encoder(model),
        matryoshka=_matryoshka(hf),
    )
    if described is not None:
        config = replace(
            config,
            type=described.pooling,
            normalize=described.normalize,
            lower_case=described.lower_case,
            max_seq_length=described.max_seq_length,
        )
    return _with_user_choices(config, args.pooler_config or {})


def _check_choices(args: EngineArgs, name: str, only: bool) -> None:
    for argument, choices in {
        "runner": ("auto", "generate", "pooling"),
        "convert": ("auto", "none", "embed"),
    }.items():
        value = getattr(args, argument)
        if value not in choices:
            raise ConfigError(f"{argument}={value!r} must be one of {', '.join(choices)}")
    if args.runner == "generate":
        if only:
            raise ConfigError(
                f"runner='generate': {name} gives embeddings only; leave the argument out"
            )
        if args.convert == "embed":
            raise ConfigError("convert='embed' needs runner='pooling', or none at all")


def _matryoshka(hf: HFConfig) -> tuple[int, ...] | None:
    """As ``config.json`` says under the names that models of this kind use."""
    sizes = hf.get("matryoshka_dimensions")
    if sizes:
        return tuple(sorted(int(size) for size in sizes))
    return () if hf.get("is_matryoshka") else None


def _with_user_choices(config: PoolingConfig, given: Mapping[str, Any]) -> PoolingConfig:
    known = ("pooling_type", "normalize")
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ConfigError(f"pooler_config: unknown key {unknown[0]!r}; known: {', '.join(known)}")
    kind = given.get("pooling_type")
    if kind is not None:
        choices = {str(one): one for one in SEQUENCE_TYPES}
        if str(kind).upper() not in choices:
            raise ConfigError(
                f"pooler_config: pooling_type={kind!r} must be one of {', '.join(choices)}"
            )
        config = replace(config, type=choices[str(kind).upper()])
    flag = given.get("normalize")
    if flag is not None:
        if not isinstance(flag, bool):
            raise ConfigError(f"pooler_config: normalize={flag!r} must be true or false")
        config = replace(config, normalize=flag)
    return config


def check_steps(config: RuntimeConfig) -> None:
    """Raise ConfigError where a step does not hold the longest prompt of an encoder."""
    pooling, limits = config.model.pooling, config.scheduler
    length = config.model.max_model_len
    if pooling is not None and pooling.encoder and limits.max_num_batched_tokens < length:
        raise ConfigError(
            f"max_num_batched_tokens={limits.max_num_batched_tokens} must be at least "
            f"max_model_len={length}: an encoder computes each prompt in one step"
        )


def check_generates(model: ModelConfig) -> None:
    """Raise RequestError where a request wants text of an engine that pools."""
    if model.pooling is not None:
        raise RequestError(
            f"this engine pools {model.architecture}: it gives embeddings (LLM.embed, "
            "/v1/embeddings) and generates no text",
            "model",
        )
