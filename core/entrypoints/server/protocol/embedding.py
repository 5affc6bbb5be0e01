"""``/v1/embeddings``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PlainValidator

from runtime.core.entrypoints.server.protocol.base import RequestModel, ResponseModel, UsageInfo
from runtime.core.entrypoints.server.protocol.prompts import schema, texts_or_ids

Inputs = Annotated[
    list[str] | list[list[int]], PlainValidator(texts_or_ids("input")), schema("Input")
]


class EmbeddingRequest(RequestModel):
    """A request for the embeddings of one or many texts."""

    model: str | None = None
    input: Inputs
    encoding_format: Literal["float", "base64"] = Field(
        default="float",
        description="Numbers, or the base64 form of float32 numbers in little-endian order",
    )
    dimensions: int | None = Field(
        default=None,
        ge=1,
        lt=2**31,
        description="Elements of an embedding, for models that were trained to be cut",
    )
    user: str | None = Field(default=None, description="Passed over")
    normalize: bool | None = Field(
        default=None, description="Bring embeddings to length 1; the default is the model's"
    )
    truncate_prompt_tokens: int | None = Field(
        default=None,
        ge=-1,
        lt=2**31,
        description="Keep this many first tokens of each text; -1 keeps what the model takes",
    )
    priority: int = Field(default=0, ge=-(2**31), lt=2**31, description="Lower is served first")
    add_special_tokens: bool = Field(
        default=True, description="Let the tokenizer add its special tokens"
    )


class Embedding(ResponseModel):
    """One text's embedding."""

    object: Literal["embedding"] = "embedding"
    index: int
    """Of its text in the request."""
    embedding: list[float] | str
    """Numbers, or with ``encoding_format`` base64 their bytes."""


class EmbeddingResponse(ResponseModel):
    """The embeddings of all texts, in their order."""

    id: str
    object: Literal["list"] = "list"
    created: int
    """Seconds since the Unix epoch."""
    model: str
    data: list[Embedding]
    usage: UsageInfo
