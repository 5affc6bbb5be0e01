"""``POST /v1/chat/completions``."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from runtime.core.engine.outputs import CompletionOutput, RequestOutput
from runtime.core.entrypoints.server.chat_output import (
    AnswerReader,
    ChatForm,
    chat_form,
    delta_message,
    finish_reason,
    reasoning_parser,
    whole_message,
)
from runtime.core.entrypoints.server.chat_prompt import ChatPrompt, chat_prompt, last_text
from runtime.core.entrypoints.server.context import ServerContext, context_of
from runtime.core.entrypoints.server.disconnect import unless_gone
from runtime.core.entrypoints.server.errors import ApiError
from runtime.core.entrypoints.server.event_stream import DONE, EventStream, event, failed_event
from runtime.core.entrypoints.server.generation import Generation, failure_of
from runtime.core.entrypoints.server.json_route import JsonRoute, responses
from runtime.core.entrypoints.server.logprobs import chat_logprobs, prompt_logprobs
from runtime.core.entrypoints.server.protocol.chat import (
    AssistantMessage,
    ChatChoice,
    ChatChunkChoice,
    ChatCompletionChunk,
    ChatCompletionRequest,
    ChatCompletionResponse,
    ChatLogprobs,
)
from runtime.core.entrypoints.server.request_ids import new_id
from runtime.core.entrypoints.server.usage import UsageCounter, usage_of
from runtime.core.pooling.config import check_generates
from runtime.core.sampling.params import OutputKind, SamplingParams

router = APIRouter(route_class=JsonRoute, tags=["generation"])


@router.post("/v1/chat/completions", responses=responses(ChatCompletionResponse, stream=True))
async def create_chat_completion(
    body: ChatCompletionRequest,
    request: Request,
    context: Annotated[ServerContext, Depends(context_of)],
) -> Response:
    """Answer a conversation."""
    usage_last, usage_always = body.usage_in_stream()
    job = await ChatJob.begin(new_id("chatcmpl", request), body, context)
    if body.stream:
        events = job.events(usage_last=usage_last, usage_always=usage_always)
        return EventStream(events, job.generation.close)
    return Response((await job.whole(request)).encode(), media_type="application/json")


def sampling_params(
    body: ChatCompletionRequest, context: ServerContext, form: ChatForm
) -> SamplingParams:
    """The engine's parameters. Without a limit, an answer may fill the context."""
    given: dict[str, Any] = {
        "max_tokens": body.max_tokens
        if body.max_completion_tokens is None
        else body.max_completion_tokens,
        "logprobs": (body.top_logprobs or 0) if body.logprobs else None,
        "output_kind": OutputKind.DELTA if body.stream else OutputKind.FINAL_ONLY,
        "structured_outputs": form.structured_outputs,
    }
    if form.tool_parser is not None and body.skip_special_tokens is None:
        # The marks of calls may be special tokens.
        given["skip_special_tokens"] = form.structured_outputs is not None
    return body.sampling_params(context.generation_defaults, **given)


async def conversation_prompt(
    body: ChatCompletionRequest, context: ServerContext, *, tools: bool
) -> ChatPrompt:
    """The prompt of a request; ``tools`` tells the template of its tools.

    Raises:
        RequestError: a message is refused by us or by the template, or there is no template.
    """
    effort = {"reasoning_effort": body.reasoning_effort} if body.reasoning_effort else None
    return await chat_prompt(body, context, tools=tools, variables=effort)


class ChatJob:
    """One request on its way, and what its answer is made of."""

    def __init__(
        self,
        name: str,
        body: ChatCompletionRequest,
        context: ServerContext,
        form: ChatForm,
        prompt: ChatPrompt,
    ) -> None:
        self.id = name
        self.generation: Generation
        self._body = body
        self._context = context
        self._form = form
        self._prompt = prompt
        self._head: dict[str, Any] = {
            "id": self.id,
            "created": int(time.time()),
            "model": context.model_names[0],
        }
        goes_on = body.echo and body.continue_final_message
        self._echo = last_text(body.messages) if goes_on else ""

    @classmethod
    async def begin(cls, name: str, body: ChatCompletionRequest, context: ServerContext) -> ChatJob:
        """Check a request and begin it; ``name`` is its id.

        Raises:
            RequestError: it is refused.
            ApiError: there is no such model.
            EngineDeadError: the engine has died.
        """
        context.check_model(body.model)
        # Before the template is looked for: a model that pools has none.
        check_generates(context.engine.config.model)
        body.check()
        form = chat_form(body, context)
        params = sampling_params(body, context, form)
        prompt = await conversation_prompt(body, context, tools=form.template_tools)
        job = cls(name, body, context, form, prompt)
        job.generation = await Generation.begin(
            context, job.id, [prompt.as_prompt(body.cache_salt)], params
        )
        return job

    async def whole(self, request: Request) -> ChatCompletionResponse:
        """The answer, unless the client goes.

        Raises:
            ApiError: the client has gone, or the engine failed on this request.
        """
        try:
            (output,) = await unless_gone(request.receive, self.generation.final())
        finally:
            self.generation.close()
        return self.response(output)

    def response(self, output: RequestOutput) -> ChatCompletionResponse:
        """The answer.

        Raises:
            ApiError: the engine failed on this request.
        """
        failure = failure_of(output.outputs)
        if failure is not None:
            raise ApiError(500, failure)
        answer = ChatCompletionResponse(
            **self._head,
            object="chat.completion",
            choices=[self._choice(one) for one in output.outputs],
            usage=usage_of([output]),
        )
        if self._body.return_token_ids:
            answer.prompt_token_ids = output.prompt_token_ids
        if self._body.prompt_logprobs is not None:
            answer.prompt_logprobs = prompt_logprobs(output.prompt_logprobs)
        return answer

    async def events(self, *, usage_last: bool, usage_always: bool) -> AsyncGenerator[bytes, None]:
        """The answer as server-sent events."""
        counter = UsageCounter()
        readers: dict[int, AnswerReader] = {}
        ended: set[int] = set()
        async for _, output in self.generation.outputs():
            counter.add(0, output)
            usage: dict[str, Any] = {"usage": counter.usage()} if usage_always else {}
            for one in output.outputs:
                if one.index in ended:
                    continue
                if one.index not in readers:
                    readers[one.index] = self.reader()
                    yield self._chunk(self._first_choice(one), **usage)
                if one.finish_reason is not None:
                    ended.add(one.index)
                if one.finish_reason == "error":
                    yield failed_event(one)
                choice = self._news(one, readers[one.index])
                if choice is not None:
                    yield self._chunk([choice], **usage)
        if usage_last:
            yield self._chunk([], usage=counter.usage())
        yield DONE

    def _chunk(self, choices: list[ChatChunkChoice], **more: Any) -> bytes:
        chunk = ChatCompletionChunk(
            **self._head, object="chat.completion.chunk", choices=choices, **more
        )
        return event(chunk.encode())

    def _first_choice(self, one: CompletionOutput) -> list[ChatChunkChoice]:
        """The role, which is told once."""
        role = self._context.args.response_role
        delta = AssistantMessage(role=role, content=self._echo)
        return [ChatChunkChoice(index=one.index, delta=delta, logprobs=None, finish_reason=None)]

    def _news(self, one: CompletionOutput, reader: AnswerReader) -> ChatChunkChoice | None:
        """What is new of one answer; None where there is nothing to tell."""
        part = reader.push(one.text)
        if one.finish_reason is not None:
            rest = reader.finish()
            part.reasoning += rest.reasoning
            part.content += rest.content
            part.calls += rest.calls
        tokens = one.token_ids if self._body.return_token_ids or self._body.logprobs else []
        if part.empty and one.finish_reason is None and not tokens:
            return None
        choice = ChatChunkChoice(
            index=one.index,
            delta=delta_message(part),
            logprobs=self._logprobs(one),
            finish_reason=finish_reason(one.finish_reason, reader),
        )
        if one.finish_reason is not None:
            choice.stop_reason = one.stop_reason
        if self._body.return_token_ids:
            choice.token_ids = one.token_ids
        return choice

    def _choice(self, one: CompletionOutput) -> ChatChoice:
        reader = self.reader()
        message = whole_message(reader, one.text, self._context.args.response_role)
        if self._echo:
            message.content = self._echo + (message.content or "")
        choice = ChatChoice(
            index=one.index,
            message=message,
            logprobs=self._logprobs(one),
            finish_reason=finish_reason(one.finish_reason, reader),
            stop_reason=one.stop_reason,
        )
        if self._body.return_token_ids:
            choice.token_ids = one.token_ids
        return choice

    def reader(self) -> AnswerReader:
        """A reader of one answer."""
        return AnswerReader(
            reasoning_parser(self._body, self._context, self._prompt.text, self._form),
            self._form.tool_parser,
            parallel=self._body.parallel_tool_calls,
            tell_reasoning=self._body.include_reasoning,
        )

    def _logprobs(self, one: CompletionOutput) -> ChatLogprobs | None:
        if not self._body.logprobs:
            return None
        return chat_logprobs(one.token_ids, one.logprobs or (), self._body.top_logprobs or 0)
