"""``POST /v1/embeddings``."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from runtime.core.engine.async_llm import AsyncLLM
from runtime.core.engine.input_processor import Prompt
from runtime.core.entrypoints.server.context import ServerContext, context_of
from runtime.core.entrypoints.server.disconnect import unless_gone
from runtime.core.entrypoints.server.errors import ApiError
from runtime.core.entrypoints.server.json_route import JsonRoute, responses
from runtime.core.entrypoints.server.protocol.embedding import EmbeddingRequest, EmbeddingResponse
from runtime.core.entrypoints.server.request_ids import new_id
from runtime.core.errors import RequestError
from runtime.core.messages import EngineRequest
from runtime.core.pooling.outputs import PoolingRequestOutput
from runtime.core.pooling.params import PoolingParams

router = APIRouter(route_class=JsonRoute, tags=["embeddings"])


@router.post("/v1/embeddings", responses=responses(EmbeddingResponse))
async def create_embeddings(
    body: EmbeddingRequest,
    request: Request,
    context: Annotated[ServerContext, Depends(context_of)],
) -> Response:
    """Embed texts, where the model pools."""
    context.check_model(body.model)
    engine = context.engine
    engine.check_health()
    name = new_id("embd", request)
    prepared = await prepare(engine, name, body)
    writer = EmbeddingWriter(name, context.model_names[0], body.encoding_format)
    futures = engine.start_pooling(prepared)
    try:
        answer = await unless_gone(request.receive, writer.write(futures))
    finally:
        for one in prepared:
            engine.abort(one.request_id)
    return Response(answer, media_type="application/json")


async def prepare(engine: AsyncLLM, name: str, body: EmbeddingRequest) -> list[EngineRequest]:
    """The engine's requests; none has begun.

    Raises:
        RequestError: a text or a parameter is refused.
    """
    params = PoolingParams(
        dimensions=body.dimensions,
        normalize=body.normalize,
        truncate_prompt_tokens=body.truncate_prompt_tokens,
        priority=body.priority,
    )
    prepared = []
    inputs: Sequence[str | list[int]] = body.input
    for index, item in enumerate(inputs):
        prompt = _prompt(engine, item, special=body.add_special_tokens)
        try:
            prepared.append(await engine.prepare_pooling(f"{name}-{index}", prompt, params))
        except RequestError as error:
            if error.param not in ("prompt", "prompt_token_ids"):
                raise
            at = f"input[{index}]: " if len(inputs) > 1 else "input: "
            raise RequestError(f"{at}{error}", "input") from None
        # There may be thousands of texts, and others to be served.
        await asyncio.sleep(0)
    return prepared


def _prompt(engine: AsyncLLM, item: str | list[int], *, special: bool) -> Prompt:
    if isinstance(item, list):
        return {"prompt_token_ids": item}
    if special:
        return item
    ids = engine.get_tokenizer().encode(item, add_special_tokens=False)
    return {"prompt": item, "prompt_token_ids": ids}


class EmbeddingWriter:
    """Writes the answer, text by text, as the engine gives them."""

    def __init__(self, name: str, model: str, encoding_format: str) -> None:
        self._shared = {"id": name, "object": "list", "created": int(time.time()), "model": model}
        self._base64 = encoding_format == "base64"

    async def write(self, futures: Sequence[asyncio.Future[PoolingRequestOutput]]) -> bytes:
        """The JSON of an :class:`EmbeddingResponse`.

        Raises:
            ApiError: the engine failed on one of the texts.
        """
        data: list[msgspec.Raw] = []
        tokens = cached = 0
        for index, future in enumerate(futures):
            output = await future
            _check(output)
            data.append(self._item(index, output))
            tokens += len(output.prompt_token_ids)
            cached += output.num_cached_tokens
            # Writing numbers takes its time; others have their turn in between.
            await asyncio.sleep(0)
        usage = {
            "prompt_tokens": tokens,
            "completion_tokens": 0,
            "total_tokens": tokens,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        return msgspec.json.encode({**self._shared, "data": data, "usage": usage})

    def _item(self, index: int, output: PoolingRequestOutput) -> msgspec.Raw:
        numbers = output.outputs.data.numpy()
        embedding: Any = numbers.tolist()
        if self._base64:
            embedding = base64.b64encode(numbers.astype("<f4").tobytes()).decode()
        item = {"object": "embedding", "index": index, "embedding": embedding}
        return msgspec.Raw(msgspec.json.encode(item))


def _check(output: PoolingRequestOutput) -> None:
    if output.finish_reason == "error":
        raise ApiError(500, output.error or "the engine failed on this request")
    if output.finish_reason == "abort":
        raise ApiError(503, "the request was ended before its time")
