"""From a user's prompt to a validated request that pools."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from runtime.core.errors import RequestError
from runtime.core.messages import EngineRequest
from runtime.core.pooling.config import PoolingConfig
from runtime.core.pooling.params import Pooling, PoolingParams, PoolingTask, PoolingType
from runtime.core.sampling.params import SamplingParams

if TYPE_CHECKING:
    from runtime.core.config.runtime import RuntimeConfig
    from runtime.core.engine.input_processor import InputProcessor, Prompt
    from runtime.core.tokenizer.interface import Tokenizer


class PoolingInputProcessor:
    """Tokenises and checks requests for embeddings against the model's limits."""

    def __init__(
        self, config: RuntimeConfig, tokenizer: Tokenizer | None, inputs: InputProcessor
    ) -> None:
        self._config = config
        self._tokenizer = tokenizer
        self._inputs = inputs

    def process(
        self, request_id: str, prompt: Prompt, params: PoolingParams
    ) -> tuple[EngineRequest, str | None]:
        """The engine's request, and the prompt's text if it was given.

        Raises:
            RequestError: names the field at fault.
        """
        if not isinstance(params, PoolingParams):
            raise RequestError(
                f"pooling_params must be PoolingParams, not {type(params).__name__}",
                "pooling_params",
            )
        config = self._config.model.pooling
        if config is None:
            raise RequestError(
                f"this engine generates text with {self._config.model.architecture}; to have "
                "embeddings, start it with runner='pooling'",
                "model",
            )
        pooling = resolve(params, config)
        keep = self._kept_tokens(params)
        text, token_ids, salt = self._inputs.tokens_of(
            prompt, lambda text: self._encode(text, keep, config)
        )
        if keep is not None:
            token_ids = token_ids[:keep]
        self._check_length(len(token_ids))
        request = EngineRequest(
            request_id=request_id,
            prompt_token_ids=token_ids,
            params=SamplingParams(max_tokens=0, detokenize=False, priority=params.priority),
            eos_token_ids=[],
            arrival_time=time.time(),
            cache_salt=salt,
            pooling=pooling,
        )
        return request, text

    def _kept_tokens(self, params: PoolingParams) -> int | None:
        keep, most = params.truncate_prompt_tokens, self._config.model.max_model_len
        if keep is not None and keep > most:
            raise RequestError(
                f"truncate_prompt_tokens={keep} exceeds the {most} tokens that a prompt may have",
                "truncate_prompt_tokens",
            )
        return most if keep == -1 else keep

    def _encode(self, text: str, keep: int | None, config: PoolingConfig) -> list[int]:
        assert self._tokenizer is not None
        if config.lower_case:
            text = text.lower()
        if keep is None:
            return self._tokenizer.encode(text)
        return self._tokenizer.encode_truncated(text, keep)

    def _check_length(self, length: int) -> None:
        limit = self._config.model.max_model_len
        if length > limit:
            raise RequestError(
                f"prompt has {length} tokens; max_model_len is {limit}: shorten it, or pass "
                "truncate_prompt_tokens=-1 to have the rest cut off",
                "prompt",
            )
        if not self._inputs.fits(length):
            raise RequestError(
                f"prompt of {length} tokens does not fit into the KV cache", "prompt"
            )


def resolve(params: PoolingParams, config: PoolingConfig) -> Pooling:
    """A request's pooling with the model's as defaults.

    Raises:
        RequestError: the model's embeddings cannot be cut to those dimensions.
    """
    _check_dimensions(params.dimensions, config)
    whole = params.task is PoolingTask.EMBED
    return Pooling(
        type=config.type if whole else PoolingType.ALL,
        normalize=config.normalize if params.normalize is None else params.normalize,
        dimensions=params.dimensions,
    )


def _check_dimensions(wanted: int | None, config: PoolingConfig) -> None:
    if wanted is None or wanted == config.hidden_size:
        return
    if config.matryoshka is None:
        raise RequestError(
            f"dimensions={wanted}: this model's embeddings have {config.hidden_size} elements and "
            "cannot be cut (its config.json has no matryoshka_dimensions)",
            "dimensions",
        )
    if config.matryoshka and wanted not in config.matryoshka:
        sizes = sorted({*config.matryoshka, config.hidden_size})
        choices = ", ".join(map(str, sizes))
        raise RequestError(f"dimensions={wanted}: must be one of {choices}", "dimensions")
    if wanted > config.hidden_size:
        raise RequestError(
            f"dimensions={wanted} exceeds the {config.hidden_size} elements of this model's "
            "embeddings",
            "dimensions",
        )
