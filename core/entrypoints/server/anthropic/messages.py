"""``POST /v1/messages`` and ``POST /v1/messages/count_tokens``."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from runtime.core.engine.outputs import CompletionOutput
from runtime.core.entrypoints.server.anthropic.answers import (
    AnthropicErrorResponse,
    DeltaUsage,
    Message,
    MessageDelta,
    MessageUsage,
    StopReason,
    TokenCount,
)
from runtime.core.entrypoints.server.anthropic.blocks import (
    BlockStream,
    content_blocks,
    named_event,
)
from runtime.core.entrypoints.server.anthropic.convert import chat_request
from runtime.core.entrypoints.server.anthropic.errors import anthropic_error
from runtime.core.entrypoints.server.anthropic.protocol import CountTokensRequest, MessagesRequest
from runtime.core.entrypoints.server.chat import ChatJob, conversation_prompt
from runtime.core.entrypoints.server.chat_output import AnswerReader, whole_message
from runtime.core.entrypoints.server.context import ServerContext, context_of
from runtime.core.entrypoints.server.disconnect import unless_gone
from runtime.core.entrypoints.server.errors import ApiError
from runtime.core.entrypoints.server.event_stream import EventStream, event
from runtime.core.entrypoints.server.json_route import JsonRoute, responses
from runtime.core.entrypoints.server.protocol.base import UsageInfo
from runtime.core.entrypoints.server.request_ids import new_id
from runtime.core.entrypoints.server.usage import UsageCounter

router = APIRouter(route_class=JsonRoute, tags=["generation"])
Context = Annotated[ServerContext, Depends(context_of)]


@router.post(
    "/v1/messages", responses=responses(Message, stream=True, error=AnthropicErrorResponse)
)
async def create_message(body: MessagesRequest, request: Request, context: Context) -> Response:
    """Answer a conversation, as Anthropic's API does."""
    job = MessageJob(
        body, await ChatJob.begin(new_id("msg", request), chat_request(body), context), context
    )
    if body.stream:
        return EventStream(job.events(), job.close, stream_error)
    return Response((await job.whole(request)).encode(), media_type="application/json")


@router.post(
    "/v1/messages/count_tokens", responses=responses(TokenCount, error=AnthropicErrorResponse)
)
async def count_tokens(body: CountTokensRequest, context: Context) -> Response:
    """How many tokens a conversation is."""
    context.check_model(body.model)
    chat = chat_request(body)
    chat.check()
    prompt = await conversation_prompt(chat, context, tools=chat.tool_choice != "none")
    answer = TokenCount(input_tokens=len(prompt.token_ids))
    return Response(answer.encode(), media_type="application/json")


def stream_error(body: bytes) -> bytes:
    """The last event of a stream that failed, from an error object of the OpenAI API."""
    error = msgspec.json.decode(body)["error"]
    return event(msgspec.json.encode(anthropic_error(error["code"], error["message"])), "error")


class MessageJob:
    """One request on its way, and what its answer is made of."""

    def __init__(self, body: MessagesRequest, chat: ChatJob, context: ServerContext) -> None:
        self._body = body
        self._chat = chat
        self._usage = UsageCounter()
        self._head: dict[str, Any] = {
            "id": f"msg_{secrets.token_hex(12)}",
            "model": context.model_names[0],
        }

    def close(self) -> None:
        """End it, if it has not ended."""
        self._chat.generation.close()

    async def whole(self, request: Request) -> Message:
        """The answer, unless the client goes.

        Raises:
            ApiError: the client has gone, or the engine failed on this request.
        """
        try:
            (output,) = await unless_gone(request.receive, self._chat.generation.final())
        finally:
            self.close()
        (one,) = output.outputs
        _check(one)
        self._usage.add(0, output)
        reader = self._chat.reader()
        message = whole_message(reader, one.text, "assistant")
        reason, sequence = self._ending(one, reader)
        return Message(
            **self._head,
            content=content_blocks(message),
            stop_reason=reason,
            stop_sequence=sequence,
            usage=MessageUsage(**_tokens(self._usage.usage())),
        )

    async def events(self) -> AsyncGenerator[bytes, None]:
        """The answer as server-sent events.

        Raises:
            ApiError: the engine failed on this request.
        """
        reader = self._chat.reader()
        blocks = BlockStream()
        begun = False
        async for _, output in self._chat.generation.outputs():
            (one,) = output.outputs
            if not begun:
                # Not before: only now it is known what the prefix cache had.
                yield self._start(UsageCounter(), output)
                begun = True
            self._usage.add(0, output)
            _check(one)
            for data in blocks.write(reader.push(one.text)):
                yield data
            if one.finish_reason is None:
                continue
            for data in blocks.write(reader.finish()):
                yield data
            for data in blocks.close():
                yield data
            yield self._end(one, reader)
        yield named_event("message_stop")

    def _start(self, usage: UsageCounter, output: Any) -> bytes:
        usage.add(0, output)
        message = Message(
            **self._head,
            content=[],
            stop_reason=None,
            stop_sequence=None,
            usage=MessageUsage(**_tokens(usage.usage())),
        )
        return named_event("message_start", message=message.model_dump())

    def _end(self, one: CompletionOutput, reader: AnswerReader) -> bytes:
        reason, sequence = self._ending(one, reader)
        return named_event(
            "message_delta",
            delta=MessageDelta(stop_reason=reason, stop_sequence=sequence).model_dump(),
            usage=DeltaUsage(**_tokens(self._usage.usage())).model_dump(),
        )

    def _ending(self, one: CompletionOutput, reader: AnswerReader) -> tuple[StopReason, str | None]:
        """Why the answer ended, and the stop sequence that ended it."""
        if one.finish_reason == "length":
            if self._usage.usage().completion_tokens < self._body.max_tokens:
                return "model_context_window_exceeded", None
            return "max_tokens", None
        if isinstance(one.stop_reason, str):
            return "stop_sequence", one.stop_reason
        return "tool_use" if reader.called else "end_turn", None


def _check(one: CompletionOutput) -> None:
    """Refuse an answer that is none."""
    if one.finish_reason == "error":
        raise ApiError(500, one.error or "the engine failed on this request")
    if one.finish_reason == "abort":
        raise ApiError(503, "the server ended this request")


def _tokens(usage: UsageInfo) -> dict[str, Any]:
    details = usage.prompt_tokens_details
    cached = 0 if details is None else details.cached_tokens
    return {
        "input_tokens": usage.prompt_tokens - cached,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.completion_tokens,
    }
