"""``/v1/models``, ``/tokenize`` and ``/detokenize``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from runtime.core.entrypoints.server.protocol.base import RequestModel, ResponseModel
from runtime.core.entrypoints.server.protocol.chat import ChatFields
from runtime.core.entrypoints.server.protocol.sampling import TokenId


class ModelCard(ResponseModel):
    """A name that requests may use."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    root: str
    """Where the weights came from."""
    parent: str | None = None
    max_model_len: int
    """Most tokens of prompt and output together."""


class ModelList(ResponseModel):
    """All names."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class TokenizeFields(RequestModel):
    """What both ways of tokenising have."""

    model: str | None = None
    return_token_strs: bool = False


class TokenizeTextRequest(TokenizeFields):
    """Tokenise a text."""

    prompt: str
    add_special_tokens: bool = True


class TokenizeChatRequest(TokenizeFields, ChatFields):
    """Tokenise a conversation by the chat template."""


class TokenizeResponse(ResponseModel):
    """A text's tokens."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeRequest(RequestModel):
    """Make tokens a text."""

    model: str | None = None
    tokens: Annotated[list[TokenId], Field(description="Token ids")]


class DetokenizeResponse(ResponseModel):
    """Tokens' text."""

    prompt: str
