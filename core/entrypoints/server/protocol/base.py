"""What all requests and answers have in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator


class RequestModel(BaseModel):
    """Something that a client sends. Types are strict: ``true`` is no number, ``"1"`` neither.

    Fields that are not known are passed over, as clients of other servers send them.
    """

    model_config = ConfigDict(strict=True, extra="ignore", protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: item for key, item in value.items() if item is not None}
        return value


class ResponseModel(BaseModel):
    """Something that a client receives."""

    model_config = ConfigDict(protected_namespaces=())

    def encode(self) -> bytes:
        """JSON without the fields that were not set."""
        return self.model_dump_json(exclude_unset=True).encode()


class ErrorInfo(ResponseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None = None
    """The field of the request at fault."""
    code: int
    """The HTTP status."""


class ErrorResponse(ResponseModel):
    """The answer to a request that is refused or failed."""

    error: ErrorInfo


class PromptTokensDetails(ResponseModel):
    """Where the prompt's tokens came from."""

    cached_tokens: int
    """Taken from the prefix cache."""


class UsageInfo(ResponseModel):
    """Tokens that a request took."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails | None = None


class StreamOptions(RequestModel):
    """What a stream tells besides its text."""

    include_usage: bool = Field(
        default=False, description="End with a chunk that has the usage and no choices"
    )
    continuous_usage_stats: bool = Field(
        default=False, description="Give the usage so far in every chunk; needs include_usage"
    )
