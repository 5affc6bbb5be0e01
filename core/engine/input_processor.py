"""From a user's prompt to a validated request. What is refused here never reaches the engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from runtime.core.config.runtime import RuntimeConfig
from runtime.core.errors import RequestError
from runtime.core.messages import EngineRequest
from runtime.core.pooling.config import check_generates
from runtime.core.sampling.params import SamplingParams
from runtime.core.sampling.registry import check_processor_names
from runtime.core.structured_output.validator import StructuredOutputValidator
from runtime.core.tokenizer.interface import Tokenizer
from runtime.core.tokenizer.special import eos_token_ids


class TokensPrompt(TypedDict):
    """A prompt that is tokens already."""

    prompt_token_ids: list[int]


Prompt = str | TokensPrompt | Mapping[str, Any]
"""A text, or ``{"prompt_token_ids": [...]}``, or ``{"prompt": text}``; ``cache_salt`` optional."""


class InputProcessor:
    """Tokenises and checks requests against the model's limits."""

    def __init__(
        self,
        config: RuntimeConfig,
        tokenizer: Tokenizer | None,
        fits: Callable[[int, int], bool],
    ) -> None:
        """``fits(num_tokens, max_step_tokens)`` says whether such a request can ever run."""
        self._config = config
        self._tokenizer = tokenizer
        self._fits = fits
        self._structured_outputs = StructuredOutputValidator(config, tokenizer)
        self.eos_token_ids = eos_token_ids(config, tokenizer)

    def process(
        self, request_id: str, prompt: Prompt, params: SamplingParams
    ) -> tuple[EngineRequest, str | None]:
        """The engine's request, and the prompt's text if it was given.

        Raises:
            RequestError: names the field at fault.
        """
        check_generates(self._config.model)
        self._check_params(params)
        text, token_ids, salt = self.tokens_of(prompt)
        token_ids = self._truncate(token_ids, params)
        self._check_length(len(token_ids), params)
        if params.structured_outputs is not None:
            # Last, for it may take long.
            self._structured_outputs.check(params.structured_outputs)
        request = EngineRequest(
            request_id=request_id,
            prompt_token_ids=token_ids,
            params=params,
            eos_token_ids=self.eos_token_ids,
            arrival_time=time.time(),
            cache_salt=salt,
            bad_words_token_ids=self._bad_words(params),
        )
        return request, text

    def shutdown(self) -> None:
        """End the process that tries structured outputs."""
        self._structured_outputs.shutdown()

    def fits(self, num_tokens: int) -> bool:
        """Whether a request of so many tokens, output included, can ever run."""
        return self._fits(num_tokens, self._config.scheduler.max_num_batched_tokens)

    def tokens_of(
        self, prompt: Prompt, encode: Callable[[str], list[int]] | None = None
    ) -> tuple[str | None, list[int], str | None]:
        """A prompt's text if it was given, its tokens, and its ``cache_salt``.

        ``encode`` tokenises where the tokenizer's own way will not do.

        Raises:
            RequestError: it is no prompt, or is empty.
        """
        text: Any = prompt
        salt: Any = None
        if isinstance(prompt, Mapping):
            unknown = set(prompt) - {"prompt", "prompt_token_ids", "cache_salt"}
            if unknown:
                raise RequestError(f"prompt: unknown keys {sorted(unknown)}", "prompt")
            text, salt = prompt.get("prompt"), prompt.get("cache_salt")
            if salt is not None and (not isinstance(salt, str) or not salt):
                raise RequestError("cache_salt must be a non-empty string", "cache_salt")
            if "prompt_token_ids" in prompt:
                return text, self._checked_ids(prompt["prompt_token_ids"]), salt
        if not isinstance(text, str):
            raise RequestError(
                "prompt must be a string or {'prompt_token_ids': [...]}, "
                f"not {type(prompt).__name__}",
                "prompt",
            )
        if self._tokenizer is None:
            raise RequestError(
                "prompt is a string, but the engine has no tokenizer (skip_tokenizer_init): "
                "pass {'prompt_token_ids': [...]}",
                "prompt",
            )
        if not text:
            raise RequestError("prompt is empty", "prompt")
        token_ids = self._tokenizer.encode(text) if encode is None else encode(text)
        if not token_ids:
            raise RequestError("prompt has no tokens", "prompt")
        return text, token_ids, salt

    def _checked_ids(self, token_ids: Any) -> list[int]:
        if not isinstance(token_ids, Sequence) or isinstance(token_ids, (str, bytes)):
            raise RequestError("prompt_token_ids must be a list of token ids", "prompt_token_ids")
        if not token_ids:
            raise RequestError("prompt_token_ids is empty", "prompt_token_ids")
        for token_id in token_ids:
            if isinstance(token_id, bool) or not isinstance(token_id, int):
                raise RequestError(
                    f"prompt_token_ids: {token_id!r} is not a token id", "prompt_token_ids"
                )
            self._check_id("prompt_token_ids", token_id)
        return list(token_ids)

    def _check_id(self, name: str, token_id: int) -> None:
        vocab_size = self._config.model.vocab_size
        if not 0 <= token_id < vocab_size:
            raise RequestError(
                f"{name}: token id {token_id} is outside the vocabulary (0 to {vocab_size - 1})",
                name,
            )

    def _truncate(self, token_ids: list[int], params: SamplingParams) -> list[int]:
        keep = params.truncate_prompt_tokens
        if keep is None:
            return token_ids
        most = self._longest_prompt(params)
        if keep > most:
            raise RequestError(
                f"truncate_prompt_tokens={keep} exceeds the {most} tokens that a prompt may have",
                "truncate_prompt_tokens",
            )
        keep = most if keep == -1 else keep
        return token_ids[:keep] if params.truncation_side == "right" else token_ids[-keep:]

    def _longest_prompt(self, params: SamplingParams) -> int:
        return self._config.model.max_model_len - (0 if params.max_tokens == 0 else 1)

    def _check_length(self, length: int, params: SamplingParams) -> None:
        limit = self._config.model.max_model_len
        if length > self._longest_prompt(params):
            room = "" if length > limit else ", which leaves no room for output"
            raise RequestError(
                f"prompt has {length} tokens; max_model_len is {limit}{room}", "prompt"
            )
        asked = params.max_tokens
        total = limit if asked is None else min(limit, length + asked)
        if params.min_tokens > limit - length:
            raise RequestError(
                f"min_tokens={params.min_tokens}: a prompt of {length} tokens leaves room for "
                f"{limit - length} (max_model_len={limit})",
                "min_tokens",
            )
        if not self.fits(total):
            raise RequestError(
                f"prompt and output of {total} tokens do not fit into the KV cache", "prompt"
            )

    def _check_params(self, params: SamplingParams) -> None:
        if not isinstance(params, SamplingParams):
            raise RequestError(
                f"sampling_params must be SamplingParams, not {type(params).__name__}",
                "sampling_params",
            )
        most = self._config.model.max_logprobs
        for name in ("logprobs", "prompt_logprobs"):
            value = getattr(params, name)
            if value is not None and most >= 0 and (value > most or value == -1):
                raise RequestError(
                    f"{name}={value}: this engine gives at most {most} (max_logprobs)", name
                )
        for name in ("stop_token_ids", "allowed_token_ids", "logit_bias"):
            for token_id in getattr(params, name) or ():
                self._check_id(name, token_id)
        if self._tokenizer is None and (params.stop or params.bad_words):
            name = "stop" if params.stop else "bad_words"
            raise RequestError(f"{name} needs a tokenizer (skip_tokenizer_init is set)", name)
        check_processor_names(tuple(params.logits_processors))

    def _bad_words(self, params: SamplingParams) -> list[list[int]]:
        """Each word as it is tokenised at the start of a text and after a space."""
        sequences: list[list[int]] = []
        for word in params.bad_words:
            assert self._tokenizer is not None
            for text in (word, " " + word.lstrip()):
                ids = self._tokenizer.encode(text, add_special_tokens=False)
                if ids and ids not in sequences:
                    sequences.append(ids)
        return sequences
