"""``/v1/completions``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator

from runtime.core.entrypoints.server.protocol.base import ResponseModel, UsageInfo
from runtime.core.entrypoints.server.protocol.prompts import MAX_PROMPTS, schema, texts_or_ids
from runtime.core.entrypoints.server.protocol.sampling import SamplingFields
from runtime.core.errors import RequestError

Prompts = Annotated[
    list[str] | list[list[int]], PlainValidator(texts_or_ids("prompt")), schema("Prompt")
]


class CompletionRequest(SamplingFields):
    """A request for the continuation of one or many prompts."""

    prompt: Prompts
    echo: bool = Field(default=False, description="Begin the output with the prompt")
    logprobs: int | None = Field(
        default=None, ge=0, lt=2**31, description="Most likely tokens to tell at each position"
    )
    suffix: str | None = Field(default=None, description="Not supported")
    best_of: int | None = Field(default=None, description="Not supported, but as n")
    add_special_tokens: bool = Field(
        default=True, description="Let the tokenizer add its begin-of-sequence token"
    )

    def check(self) -> None:
        """Refuse what fields say together.

        Raises:
            RequestError: names one of them.
        """
        if self.suffix:
            raise RequestError("suffix is not supported", "suffix")
        if self.best_of is not None and self.best_of != self.n:
            raise RequestError("best_of is not supported", "best_of")
        if self.n * len(self.prompt) > MAX_PROMPTS:
            raise RequestError(
                f"n={self.n} outputs of {len(self.prompt)} prompts are more than {MAX_PROMPTS}",
                "n",
            )


class CompletionLogprobs(ResponseModel):
    """Log-probabilities, one entry a token. The first token of an echoed prompt has none."""

    text_offset: list[int]
    """Where each token begins in the text, in characters."""
    token_logprobs: list[float | None]
    tokens: list[str]
    top_logprobs: list[dict[str, float] | None]


class CompletionChoice(ResponseModel):
    """One output."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: Literal["stop", "length", "abort", "error"] | None = None
    stop_reason: int | str | None = None
    """The stop token or text that ended it."""
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    prompt_logprobs: list[dict[str, dict[str, Any]] | None] | None = None


class CompletionResponse(ResponseModel):
    """The outputs of all prompts, or what is new of them."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    """Seconds since the Unix epoch."""
    model: str
    choices: list[CompletionChoice]
    usage: UsageInfo | None = None
