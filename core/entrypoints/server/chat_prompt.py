"""From a conversation to a prompt: messages as chat templates take them."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.core.engine.input_processor import Prompt
from runtime.core.entrypoints.server.context import ServerContext
from runtime.core.entrypoints.server.protocol.chat import ChatFields, ChatMessage
from runtime.core.errors import RequestError

_RESERVED = frozenset(("messages", "add_generation_prompt", "continue_final_message", "tools"))
_NEEDS = {"user": "content", "system": "content", "developer": "content", "tool": "content"}


@dataclass(frozen=True)
class ChatPrompt:
    """A conversation as the model reads it."""

    text: str
    token_ids: list[int]

    def as_prompt(self, cache_salt: str | None = None) -> Prompt:
        """As the engine takes it."""
        salt = {} if cache_salt is None else {"cache_salt": cache_salt}
        return {"prompt": self.text, "prompt_token_ids": self.token_ids, **salt}


async def chat_prompt(
    body: ChatFields,
    context: ServerContext,
    *,
    tools: bool = True,
    variables: Mapping[str, Any] | None = None,
) -> ChatPrompt:
    """The prompt of a conversation.

    ``tools`` tells the template of the request's tools; ``variables`` are further ones of its.

    Raises:
        RequestError: a message is refused by us or by the template, or there is no template.
    """
    # The template may be slow, and so may tokenising: other requests' tokens must not wait.
    return await asyncio.to_thread(_render, body, context, tools, dict(variables or {}))


def _render(
    body: ChatFields, context: ServerContext, tools: bool, variables: dict[str, Any]
) -> ChatPrompt:
    tokenizer = context.engine.get_tokenizer()
    template = _template(body, context)
    parts: str = context.args.chat_template_content_format
    if parts == "auto":
        parts = content_format(template or tokenizer.chat_template or "")
    messages = [
        _message(message, index, as_parts=parts == "openai")
        for index, message in enumerate(body.messages)
    ]
    asked = body.chat_template_kwargs or {}
    for name in asked:
        if name in _RESERVED:
            raise RequestError(
                f"chat_template_kwargs may not set {name!r}: the request has a field for it",
                "chat_template_kwargs",
            )
    variables.update(asked)
    if body.documents is not None:
        variables["documents"] = body.documents
    if tools and body.tools:
        variables["tools"] = [tool.model_dump(exclude_none=True) for tool in body.tools]
    begin = body.add_generation_prompt
    if begin is None:
        begin = not body.continue_final_message
    text = tokenizer.apply_chat_template(
        messages,
        add_generation_prompt=begin,
        continue_final_message=body.continue_final_message,
        chat_template=template,
        **variables,
    )
    if not text:
        raise RequestError("the chat template makes an empty prompt of these messages", "messages")
    # A template writes special tokens itself.
    token_ids = tokenizer.encode(text, add_special_tokens=body.add_special_tokens)
    return ChatPrompt(text, token_ids)


def _template(body: ChatFields, context: ServerContext) -> str | None:
    if body.chat_template is None:
        return context.chat_template
    if not context.args.trust_request_chat_template:
        raise RequestError(
            "chat_template: this server takes no templates from requests "
            "(--trust-request-chat-template)",
            "chat_template",
        )
    return body.chat_template


@functools.lru_cache(maxsize=32)
def content_format(template: str) -> str:
    """Whether a template walks through the parts of a message: ``openai``, else ``string``.

    Found in its syntax: a loop over something's ``content``, or over a variable set to that.
    """
    import jinja2
    from jinja2 import nodes

    environment = jinja2.Environment(extensions=["jinja2.ext.loopcontrols"])
    try:
        tree = environment.parse(
            template.replace("{% generation %}", "").replace("{% endgeneration %}", "")
        )
    except jinja2.TemplateSyntaxError:
        return "string"

    def is_content(node: nodes.Node) -> bool:
        if isinstance(node, nodes.Filter) and node.node is not None:
            return is_content(node.node)
        if isinstance(node, nodes.Getattr):
            return node.attr == "content"
        if isinstance(node, nodes.Getitem):
            return isinstance(node.arg, nodes.Const) and node.arg.value == "content"
        return isinstance(node, nodes.Name) and node.name in names

    names: set[str] = set()
    for assign in tree.find_all(nodes.Assign):
        if isinstance(assign.target, nodes.Name) and is_content(assign.node):
            names.add(assign.target.name)
    loops = tree.find_all(nodes.For)
    return "openai" if any(is_content(loop.iter) for loop in loops) else "string"


def _message(message: ChatMessage, index: int, *, as_parts: bool) -> dict[str, Any]:
    """One message as templates expect it."""
    at = f"messages[{index}]"
    value = message.model_dump(exclude_none=True, exclude={"content", "tool_calls"})
    if message.content is None and message.role in _NEEDS:
        raise RequestError(f"{at}.content is required for role {message.role!r}", f"{at}.content")
    if message.content is not None:
        value["content"] = _content(message, at, as_parts=as_parts)
    elif message.role == "assistant":
        # Templates read the content of every message; a call may have none.
        value["content"] = [] if as_parts else ""
    if message.tool_calls:
        value["tool_calls"] = [
            {
                **call.model_dump(exclude_none=True, exclude={"function"}),
                "function": {
                    "name": call.function.name,
                    "arguments": _arguments(
                        call.function.arguments, f"{at}.tool_calls[{number}].function.arguments"
                    ),
                },
            }
            for number, call in enumerate(message.tool_calls)
        ]
    # Templates call it by either name.
    thoughts = message.reasoning_content or message.reasoning
    if thoughts is not None:
        value["reasoning_content"] = value["reasoning"] = thoughts
    return value


def _content(message: ChatMessage, at: str, *, as_parts: bool) -> Any:
    content = message.content
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if as_parts else content
    assert content is not None
    texts = []
    for number, part in enumerate(content):
        place = f"{at}.content[{number}]"
        if part.type not in ("text", "input_text", "output_text"):
            raise RequestError(
                f"{place}: this model takes no parts of type {part.type!r:.80}, only text", place
            )
        if part.text is None:
            raise RequestError(f"{place} needs text", place)
        texts.append(part.text)
    if as_parts:
        return [{"type": "text", "text": text} for text in texts]
    return "\n".join(texts)


def _arguments(given: str | Mapping[str, Any] | None, at: str) -> Mapping[str, Any]:
    """A call's arguments as an object, which is what templates write in their own way."""
    if isinstance(given, Mapping):
        return given
    if not (given or "").strip():
        return {}
    try:
        value = json.loads(given or "")
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{at} is not JSON: {error}", at) from None
    if not isinstance(value, dict):
        raise RequestError(f"{at} must be a JSON object", at)
    return value


def last_text(messages: Sequence[ChatMessage]) -> str:
    """The text of the last message."""
    content = messages[-1].content
    if isinstance(content, list):
        return "\n".join(part.text or "" for part in content)
    return content or ""
