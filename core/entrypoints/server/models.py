"""``GET /v1/models``, ``POST /tokenize`` and ``POST /detokenize``."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from runtime.core.entrypoints.server.chat_prompt import chat_prompt
from runtime.core.entrypoints.server.context import ServerContext, context_of
from runtime.core.entrypoints.server.json_route import JsonRoute, responses
from runtime.core.entrypoints.server.protocol.models import (
    DetokenizeRequest,
    DetokenizeResponse,
    ModelCard,
    ModelList,
    TokenizeChatRequest,
    TokenizeResponse,
    TokenizeTextRequest,
)
from runtime.core.errors import RequestError

router = APIRouter(route_class=JsonRoute, tags=["model"])
Context = Annotated[ServerContext, Depends(context_of)]


@router.get("/v1/models", responses=responses(ModelList))
async def list_models(context: Context) -> Response:
    """The names by which requests may call the model."""
    return _json(ModelList(object="list", data=[card(context, n) for n in context.model_names]))


@router.get("/v1/models/{name:path}", responses=responses(ModelCard))
async def get_model(name: str, context: Context) -> Response:
    """One of the names."""
    context.check_model(name)
    return _json(card(context, name))


@router.post("/tokenize", responses=responses(TokenizeResponse))
async def tokenize(body: TokenizeTextRequest | TokenizeChatRequest, context: Context) -> Response:
    """Tokens of a text, or of a conversation by the chat template."""
    context.check_model(body.model)
    tokenizer = context.engine.get_tokenizer()
    if isinstance(body, TokenizeChatRequest):
        tokens = (await chat_prompt(body, context)).token_ids
    else:
        tokens = await asyncio.to_thread(
            tokenizer.encode, body.prompt, add_special_tokens=body.add_special_tokens
        )
    answer = TokenizeResponse(
        count=len(tokens), max_model_len=context.engine.config.model.max_model_len, tokens=tokens
    )
    if body.return_token_strs:
        answer.token_strs = [tokenizer.token_text(token) for token in tokens]
    return _json(answer)


@router.post("/detokenize", responses=responses(DetokenizeResponse))
async def detokenize(body: DetokenizeRequest, context: Context) -> Response:
    """The text of tokens, with special tokens."""
    context.check_model(body.model)
    tokenizer = context.engine.get_tokenizer()
    size = context.engine.config.model.vocab_size
    for index, token in enumerate(body.tokens):
        if token >= size:
            raise RequestError(
                f"tokens[{index}]: token id {token} is outside the vocabulary (0 to {size - 1})",
                "tokens",
            )
    text = await asyncio.to_thread(tokenizer.decode, body.tokens, skip_special_tokens=False)
    return _json(DetokenizeResponse(prompt=text))


def card(context: ServerContext, name: str) -> ModelCard:
    """What is told of one name."""
    model = context.engine.config.model
    return ModelCard(
        id=name,
        object="model",
        created=context.created,
        owned_by="runtime",
        root=model.model,
        parent=None,
        max_model_len=model.max_model_len,
    )


def _json(answer: ModelList | ModelCard | TokenizeResponse | DetokenizeResponse) -> Response:
    return Response(answer.encode(), media_type="application/json")
