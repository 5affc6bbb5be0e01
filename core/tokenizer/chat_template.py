"""Chat templates: Jinja, in the dialect that transformers gives the templates of the Hub."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from runtime.core.errors import RequestError

_CONTINUE = "<|here the last message goes on|>"
"""Put after the last message to find where its text ends in the prompt."""


class _GenerationBlocks(Extension):
    """``{% generation %}``, by which templates mark the assistant's words for training."""

    tags = {"generation"}  # noqa: RUF012 (the base class's own declaration)

    def parse(self, parser: Parser) -> nodes.Node:
        """The block's content, in a scope of its own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


class ChatTemplate:
    """One template. Templates come with models, from strangers: they run in a sandbox."""

    def __init__(self, source: str) -> None:
        self.source = source

    @cached_property
    def _compiled(self) -> jinja2.Template:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_GenerationBlocks, "jinja2.ext.loopcontrols"],
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = _strftime_now
        try:
            return environment.from_string(self.source)
        except jinja2.TemplateSyntaxError as error:
            raise RequestError(
                f"the chat template is not valid Jinja: {error.message} (line {error.lineno})"
            ) from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool,
        continue_final_message: bool = False,
        **variables: Any,
    ) -> str:
        """The prompt of a conversation.

        ``continue_final_message`` ends the prompt where the last message ends, so that the model
        goes on with it.

        Raises:
            RequestError: the template refuses the conversation, in its own words, or fails; or
                ``continue_final_message`` contradicts ``add_generation_prompt`` or the template.
        """
        # Clients send absent fields as null; templates test whether a field is there.
        chat = [{k: v for k, v in message.items() if v is not None} for message in messages]
        if continue_final_message:
            if add_generation_prompt:
                raise RequestError(
                    "continue_final_message and add_generation_prompt exclude each other: the "
                    "one goes on with the last message, the other starts a new one",
                    "continue_final_message",
                )
            chat = _with_mark(chat)
        text = self._render(
            {**variables, "messages": chat, "add_generation_prompt": add_generation_prompt}
        )
        return _cut_at_mark(text) if continue_final_message else text

    def _render(self, variables: Mapping[str, Any]) -> str:
        try:
            return self._compiled.render(variables)
        except RequestError:
            raise
        except _Refusal as error:
            raise RequestError(str(error), "messages") from error
        # A template is a program that we did not write: whatever it raises is its fault.
        except Exception as error:
            raise RequestError(
                f"the chat template failed on these messages: {type(error).__name__}: {error}",
                "messages",
            ) from error


class _Refusal(jinja2.TemplateError):
    """The template called ``raise_exception``."""


def _raise_exception(message: str) -> NoReturn:
    raise _Refusal(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as it is. Jinja's own filter escapes it for HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _with_mark(chat: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The conversation with the mark after the last message's text.

    A blank follows the mark, by which :func:`_cut_at_mark` sees whether the template trims.
    """
    content = chat[-1].get("content") if chat else None
    if isinstance(content, str):
        marked: Any = f"{content}{_CONTINUE} "
    elif isinstance(content, list) and content and "text" in content[-1]:
        marked = [*content[:-1], {**content[-1], "text": f"{content[-1]['text']}{_CONTINUE} "}]
    else:
        raise RequestError(
            "continue_final_message needs a last message with text", "continue_final_message"
        )
    return [*chat[:-1], {**chat[-1], "content": marked}]


def _cut_at_mark(text: str) -> str:
    end = text.rfind(_CONTINUE)
    if end < 0:
        raise RequestError(
            "continue_final_message: the chat template leaves out the last message",
            "continue_final_message",
        )
    trimmed = not text.startswith(" ", end + len(_CONTINUE))
    return text[:end].rstrip() if trimmed else text[:end]
