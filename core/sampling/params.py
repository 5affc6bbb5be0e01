"""What a request may ask of sampling, checked when it is made."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal

import msgspec

from runtime.core.errors import RequestError
from runtime.core.structured_output.params import StructuredOutputs

MAX_LOGIT_BIAS = 100.0


class OutputKind(Enum):
    """What each :class:`RequestOutput` of a request holds."""

    CUMULATIVE = 0
    """Everything so far, at every step."""
    DELTA = 1
    """What is new since the last one."""
    FINAL_ONLY = 2
    """Everything, once, at the end."""


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the tokens of one request are chosen.

    Raises:
        RequestError: a value is out of range; ``param`` names it.
    """

    n: int = 1
    """Outputs for the prompt."""
    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    """Smallest set of most likely tokens whose probability reaches this."""
    top_k: int = 0
    """Most likely tokens considered; 0 or -1 is all."""
    min_p: float = 0.0
    """Least probability, relative to the most likely token's."""
    seed: int | None = None
    presence_penalty: float = 0.0
    """Subtracted from the logits of tokens that the output has; in [-2, 2]."""
    frequency_penalty: float = 0.0
    """Subtracted once for each time the output has the token; in [-2, 2]."""
    repetition_penalty: float = 1.0
    """Divides positive and multiplies negative logits of tokens in prompt or output; above 0."""
    max_tokens: int | None = 16
    """Most tokens of output; None is what the context holds. 0 computes the prompt alone."""
    min_tokens: int = 0
    """Tokens before which neither end-of-sequence nor a stop ends the output."""
    stop: str | Sequence[str] = ()
    """Strings that end the output."""
    stop_token_ids: Sequence[int] = ()
    """Tokens that end the output."""
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    bad_words: Sequence[str] = ()
    """Words whose last token is never chosen after the others."""
    logit_bias: Mapping[int, float] | None = None
    """Added to logits, by token id; values in [-100, 100]."""
    allowed_token_ids: Sequence[int] | None = None
    """Only these tokens may be chosen."""
    logprobs: int | None = None
    """Log-probabilities of this many most likely tokens besides the chosen one's; -1 is all."""
    prompt_logprobs: int | None = None
    """The same, for each token of the prompt but the first."""
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    truncate_prompt_tokens: int | None = None
    """Keep this many last tokens of the prompt; -1 is what the context holds."""
    truncation_side: Literal["left", "right"] = "left"
    """Where a prompt that is too long is cut; ``right`` keeps its first tokens."""
    priority: int = 0
    """Lower is served first, where the scheduling policy is ``priority``."""
    output_kind: OutputKind = OutputKind.CUMULATIVE
    logits_processors: Sequence[str] = ()
    """Names of registered logits processors that this request asks for."""
    structured_outputs: StructuredOutputs | None = None
    """The form that the output must have."""
    extra_args: Mapping[str, Any] | None = None
    """Arguments of logits processors and plugins."""

    def __post_init__(self) -> None:
        """Check every field and normalise sequences to tuples."""
        _check_integers(self)
        _check_floats(self)
        _normalise_sequences(self)
        _normalise_logit_bias(self)
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise _error(
                "min_tokens", self.min_tokens, f"must not exceed max_tokens={self.max_tokens}"
            )
        if self.truncate_prompt_tokens == 0:
            raise _error("truncate_prompt_tokens", 0, "must be at least 1, or -1")
        if self.truncation_side not in ("left", "right"):
            raise _error("truncation_side", self.truncation_side, "must be 'left' or 'right'")
        if self.stop and not self.detokenize:
            raise RequestError("stop strings need detokenize=True", "stop")
        wanted: object = self.structured_outputs
        if wanted is not None and not isinstance(wanted, StructuredOutputs):
            raise RequestError(
                f"structured_outputs must be StructuredOutputs, not {type(wanted).__name__}",
                "structured_outputs",
            )

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is always taken."""
        return self.temperature == 0.0

    @property
    def penalised(self) -> bool:
        """Whether any penalty applies."""
        return (
            self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
            or self.repetition_penalty != 1.0
        )

    @property
    def reads_output(self) -> bool:
        """Whether a token depends on those before it otherwise than through the model."""
        return bool(
            self.penalised
            or self.bad_words
            or self.logits_processors
            or self.structured_outputs is not None
        )

    @classmethod
    def from_generation_config(cls, generation: Mapping[str, Any], **given: Any) -> SamplingParams:
        """Parameters with a checkpoint's ``generation_config.json`` as defaults."""
        names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
        defaults = {key: generation[key] for key in names if generation.get(key) is not None}
        return cls(**{**defaults, **given})


def _error(name: str, value: object, rule: str) -> RequestError:
    return RequestError(f"{name}={value!r}: {rule}", name)


# Field: (least, most) value, None where there is no bound.
_INTEGERS: Mapping[str, tuple[int | None, int | None]] = {
    "n": (1, None),
    "top_k": (-1, 2**31 - 1),
    "seed": (-(2**63), 2**64 - 1),
    "max_tokens": (0, 2**31 - 1),
    "min_tokens": (0, None),
    "logprobs": (-1, None),
    "prompt_logprobs": (-1, None),
    "truncate_prompt_tokens": (-1, None),
    "priority": (-(2**31), 2**31 - 1),
}
_OPTIONAL = frozenset(
    ("seed", "max_tokens", "logprobs", "prompt_logprobs", "truncate_prompt_tokens")
)
# Field: (least, most, least is excluded).
_FLOATS: Mapping[str, tuple[float, float, bool]] = {
    "temperature": (0.0, math.inf, False),
    "top_p": (0.0, 1.0, True),
    "min_p": (0.0, 1.0, False),
    "presence_penalty": (-2.0, 2.0, False),
    "frequency_penalty": (-2.0, 2.0, False),
    "repetition_penalty": (0.0, math.inf, True),
}
_MIN_TEMPERATURE = 1e-5
"""Temperatures below this are greedy: dividing by them overflows."""


def _check_integers(params: SamplingParams) -> None:
    for name, (least, most) in _INTEGERS.items():
        value = getattr(params, name)
        if value is None and name in _OPTIONAL:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise _error(name, value, "must be an integer")
        if least is not None and value < least:
            raise _error(name, value, f"must be at least {least}")
        if most is not None and value > most:
            raise _error(name, value, f"must be at most {most}")


def _check_floats(params: SamplingParams) -> None:
    for name, (least, most, open_below) in _FLOATS.items():
        value = getattr(params, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _error(name, value, "must be a number")
        if not math.isfinite(value):
            raise _error(name, value, "must be finite")
        if value < least or value > most or (open_below and value == least):
            left = "(" if open_below else "["
            right = f"{most:g}]" if math.isfinite(most) else "inf)"
            raise _error(name, value, f"must be in {left}{least:g}, {right}")
    if 0.0 < params.temperature < _MIN_TEMPERATURE:
        msgspec.structs.force_setattr(params, "temperature", 0.0)


def _strings(name: str, value: Any) -> tuple[str, ...]:
    items = (value,) if isinstance(value, str) else () if value is None else tuple(value)
    for item in items:
        if not isinstance(item, str):
            raise _error(name, item, "must be a string")
        if not item:
            raise _error(name, item, "must not be empty")
    return items


def _token_ids(name: str, value: Iterable[Any] | None) -> tuple[int, ...]:
    items = () if value is None else tuple(value)
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int):
            raise _error(name, item, "must be token ids")
        if item < 0:
            raise _error(name, item, "token ids are not negative")
    return items


def _normalise_sequences(params: SamplingParams) -> None:
    put = msgspec.structs.force_setattr
    for name in ("stop", "bad_words", "logits_processors"):
        put(params, name, _strings(name, getattr(params, name)))
    put(params, "stop_token_ids", _token_ids("stop_token_ids", params.stop_token_ids))
    if params.allowed_token_ids is not None:
        allowed = _token_ids("allowed_token_ids", params.allowed_token_ids)
        if not allowed:
            raise _error("allowed_token_ids", [], "must name at least one token")
        put(params, "allowed_token_ids", allowed)


def _normalise_logit_bias(params: SamplingParams) -> None:
    if params.logit_bias is None:
        return
    if not isinstance(params.logit_bias, Mapping):
        raise _error("logit_bias", params.logit_bias, "must map token ids to numbers")
    bias: dict[int, float] = {}
    for key, value in params.logit_bias.items():
        try:
            token_id = int(key)
        except (TypeError, ValueError):
            raise _error("logit_bias", key, "keys must be token ids") from None
        if token_id < 0:
            raise _error("logit_bias", key, "token ids are not negative")
        number = not isinstance(value, bool) and isinstance(value, (int, float))
        if not number or not abs(value) <= MAX_LOGIT_BIAS:
            raise _error(
                "logit_bias",
                value,
                f"must be a number in [-{MAX_LOGIT_BIAS:g}, {MAX_LOGIT_BIAS:g}]",
            )
        bias[token_id] = float(value)
    msgspec.structs.force_setattr(params, "logit_bias", bias)
