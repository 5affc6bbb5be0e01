"""``POST /v1/completions``."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Request, Response

from runtime.core.engine.input_processor import Prompt
from runtime.core.engine.outputs import CompletionOutput, PositionLogprobs, RequestOutput
from runtime.core.entrypoints.server.context import ServerContext, context_of
from runtime.core.entrypoints.server.disconnect import unless_gone
from runtime.core.entrypoints.server.errors import ApiError
from runtime.core.entrypoints.server.event_stream import DONE, EventStream, event, failed_event
from runtime.core.entrypoints.server.generation import Generation, failure_of
from runtime.core.entrypoints.server.json_route import JsonRoute, responses
from runtime.core.entrypoints.server.logprobs import CompletionLogprobsWriter, prompt_logprobs
from runtime.core.entrypoints.server.protocol.completion import (
    CompletionChoice,
    CompletionRequest,
    CompletionResponse,
)
from runtime.core.entrypoints.server.request_ids import new_id
from runtime.core.entrypoints.server.usage import UsageCounter, usage_of
from runtime.core.sampling.params import OutputKind, SamplingParams

router = APIRouter(route_class=JsonRoute, tags=["generation"])


@router.post("/v1/completions", responses=responses(CompletionResponse, stream=True))
async def create_completion(
    body: CompletionRequest,
    request: Request,
    context: Annotated[ServerContext, Depends(context_of)],
) -> Response:
    """Continue prompts."""
    context.check_model(body.model)
    body.check()
    usage_last, usage_always = body.usage_in_stream()
    params = sampling_params(body, context)
    job = CompletionJob(new_id("cmpl", request), body, context, params)
    generation = await Generation.begin(context, job.id, prompts_of(body, context), params)
    if body.stream:
        events = job.events(generation, usage_last=usage_last, usage_always=usage_always)
        return EventStream(events, generation.close)
    try:
        outputs = await unless_gone(request.receive, generation.final())
    finally:
        generation.close()
    return Response(job.response(outputs).encode(), media_type="application/json")


def sampling_params(body: CompletionRequest, context: ServerContext) -> SamplingParams:
    """The engine's parameters."""
    given: dict[str, Any] = {
        "logprobs": body.logprobs,
        "output_kind": OutputKind.DELTA if body.stream else OutputKind.FINAL_ONLY,
        "structured_outputs": body.form(),
    }
    if body.echo and body.logprobs is not None and body.prompt_logprobs is None:
        given["prompt_logprobs"] = body.logprobs
    return body.sampling_params(context.generation_defaults, **given)


def prompts_of(body: CompletionRequest, context: ServerContext) -> list[Prompt]:
    """The prompts as the engine takes them."""
    salt = {} if body.cache_salt is None else {"cache_salt": body.cache_salt}
    prompts: list[Prompt] = []
    for item in body.prompt:
        if isinstance(item, list):
            prompts.append({"prompt_token_ids": item, **salt})
        elif body.add_special_tokens:
            prompts.append({"prompt": item, **salt})
        else:
            tokenizer = context.engine.get_tokenizer()
            ids = tokenizer.encode(item, add_special_tokens=False)
            prompts.append({"prompt": item, "prompt_token_ids": ids, **salt})
    return prompts


class CompletionJob:
    """One request, and what its answer is made of."""

    def __init__(
        self,
        name: str,
        body: CompletionRequest,
        context: ServerContext,
        params: SamplingParams,
    ) -> None:
        self.id = name
        self._body = body
        self._params = params
        self._tokenizer = context.engine.tokenizer
        self._shared: dict[str, Any] = {
            "id": self.id,
            "object": "text_completion",
            "created": int(time.time()),
            "model": context.model_names[0],
        }
        self._choices: dict[tuple[int, int], _ChoiceWriter] = {}

    def response(self, outputs: Sequence[RequestOutput]) -> CompletionResponse:
        """The answer.

        Raises:
            ApiError: the engine failed on this request.
        """
        for output in outputs:
            failure = failure_of(output.outputs)
            if failure is not None:
                raise ApiError(500, failure)
        choices = [
            self._choice(index, output, one)
            for index, output in enumerate(outputs)
            for one in output.outputs
        ]
        return CompletionResponse(**self._shared, choices=choices, usage=usage_of(outputs))

    async def events(
        self, generation: Generation, *, usage_last: bool, usage_always: bool
    ) -> AsyncGenerator[bytes, None]:
        """The answer as server-sent events."""
        counter = UsageCounter()
        async for index, output in generation.outputs():
            counter.add(index, output)
            for one in output.outputs:
                if one.finish_reason == "error":
                    yield failed_event(one)
                choice = self._news(index, output, one)
                if choice is not None:
                    usage: dict[str, Any] = {"usage": counter.usage()} if usage_always else {}
                    chunk = CompletionResponse(**self._shared, choices=[choice], **usage)
                    yield event(chunk.encode())
        if usage_last:
            last = CompletionResponse(**self._shared, choices=[], usage=counter.usage())
            yield event(last.encode())
        yield DONE

    def _news(
        self, index: int, output: RequestOutput, one: CompletionOutput
    ) -> CompletionChoice | None:
        """What is new of one output; None where there is nothing to tell."""
        writer = self._choices.get((index, one.index))
        if writer is not None and writer.ended:
            return None
        if not (one.text or one.token_ids or one.finish_reason) and (writer or not self._body.echo):
            return None
        return self._choice(index, output, one)

    def _choice(self, index: int, output: RequestOutput, one: CompletionOutput) -> CompletionChoice:
        key = (index, one.index)
        if key not in self._choices:
            number = index * self._params.n + one.index
            self._choices[key] = _ChoiceWriter(number, self._body, self._params, self._tokenizer)
        return self._choices[key].write(output, one)


class _ChoiceWriter:
    """Writes one output, whole or while it grows."""

    def __init__(
        self, number: int, body: CompletionRequest, params: SamplingParams, tokenizer: Any
    ) -> None:
        self._number = number
        self._body = body
        self._tokenizer = tokenizer
        self._begun = False
        self.ended = False
        self._logprobs = (
            None
            if body.logprobs is None
            else CompletionLogprobsWriter(
                tokenizer, body.logprobs, skip_special=params.skip_special_tokens
            )
        )

    def write(self, output: RequestOutput, one: CompletionOutput) -> CompletionChoice:
        """The next part."""
        first, self._begun = not self._begun, True
        self.ended = one.finish_reason is not None
        text = one.text
        if first and self._body.echo:
            text = self._prompt_text(output) + text
        choice = CompletionChoice(
            index=self._number,
            text=text,
            logprobs=self._write_logprobs(output, one, first=first),
            finish_reason=cast(Any, one.finish_reason),
            stop_reason=one.stop_reason,
        )
        if self._body.return_token_ids:
            choice.token_ids = one.token_ids
            if first:
                choice.prompt_token_ids = output.prompt_token_ids
        if first and self._body.prompt_logprobs is not None:
            choice.prompt_logprobs = prompt_logprobs(output.prompt_logprobs)
        return choice

    def _write_logprobs(self, output: RequestOutput, one: CompletionOutput, *, first: bool) -> Any:
        if self._logprobs is None:
            return None
        token_ids = list(one.token_ids)
        positions: list[PositionLogprobs | None] = list(one.logprobs or ())
        if first and self._body.echo:
            token_ids[:0] = output.prompt_token_ids
            positions[:0] = output.prompt_logprobs or ()
        elif first:
            self._logprobs.start_behind(output.prompt_token_ids)
        return self._logprobs.write(token_ids, positions, finished=self.ended)

    def _prompt_text(self, output: RequestOutput) -> str:
        if output.prompt is not None and self._body.truncate_prompt_tokens is None:
            return output.prompt
        if self._tokenizer is None:
            return ""
        text: str = self._tokenizer.decode(output.prompt_token_ids)
        return text
