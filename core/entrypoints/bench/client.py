"""Requests to an OpenAI-compatible server, streamed, each piece of output with its time."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import httpx

from runtime.core.entrypoints.bench.metrics import RequestRecord
from runtime.core.entrypoints.cli.secrets import shown
from runtime.core.errors import RuntimeUserError

if TYPE_CHECKING:
    from runtime.core.entrypoints.bench.datasets import BenchRequest

KEY_VARIABLE = "OPENAI_API_KEY"
_ERROR_LENGTH = 300
_CONNECT_SECONDS = 10.0


class Backend(StrEnum):
    """Which of the two APIs is spoken."""

    COMPLETIONS = "openai"
    CHAT = "openai-chat"

    @property
    def endpoint(self) -> str:
        """Its path under the base URL."""
        return "/v1/completions" if self is Backend.COMPLETIONS else "/v1/chat/completions"


@dataclass(frozen=True)
class Target:
    """Where requests go, and what each of them says."""

    backend: Backend
    url: str
    model: str
    ignore_eos: bool
    """Sent only if set: it is an extension that not every server knows."""
    extra_body: Mapping[str, Any]
    """Fields that replace or join the request's."""

    def payload(self, request: BenchRequest) -> dict[str, Any]:
        """The request's JSON."""
        prompt = request.prompt
        payload: dict[str, Any] = {
            "model": self.model,
            "max_tokens": request.output_len,
            "temperature": 0.0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.backend is Backend.CHAT:
            payload["messages"] = [{"role": "user", "content": prompt.text}]
        else:
            payload["prompt"] = list(prompt.token_ids) if prompt.text is None else prompt.text
        if self.ignore_eos:
            payload["ignore_eos"] = True
        return {**payload, **self.extra_body}


def http_client(api_key: str | None, timeout: float) -> httpx.AsyncClient:
    """A client that opens as many connections as there are requests.

    Args:
        api_key: sent as a bearer token.
        timeout: seconds that a server may be silent.
    """
    return httpx.AsyncClient(
        # Streams are read as they come, and compressing them would hold pieces back.
        headers={"Accept-Encoding": "identity"}
        | ({"Authorization": f"Bearer {api_key}"} if api_key else {}),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
        timeout=httpx.Timeout(timeout, connect=_CONNECT_SECONDS),
        follow_redirects=True,
    )


async def first_model(client: httpx.AsyncClient, base_url: str) -> str:
    """The name of the first model that a server lists.

    Raises:
        RuntimeUserError: it cannot be reached, or lists none.
    """
    url = f"{base_url}/v1/models"
    try:
        response = await client.get(url)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise RuntimeUserError(f"{shown('', url)}: {_reason(error)}") from error
    if response.status_code != httpx.codes.OK:
        said = _status(response.status_code, response.text)
        raise RuntimeUserError(f"{shown('', url)}: {said}")
    try:
        return str(response.json()["data"][0]["id"])
    except (ValueError, LookupError, TypeError) as error:
        raise RuntimeUserError(
            f"{shown('', url)} lists no model: name the server's with --model"
        ) from error


async def send(client: httpx.AsyncClient, target: Target, request: BenchRequest) -> RequestRecord:
    """Send a request and read its stream to the end. What goes wrong is in the record.

    Prompt and output tokens are the server's own counts. Where it gives none, the prompt's are the
    dataset's and each piece of output counts as one token.
    """
    record = RequestRecord(time.perf_counter(), len(request.prompt.token_ids))
    try:
        async with client.stream("POST", target.url, json=target.payload(request)) as response:
            if response.status_code != httpx.codes.OK:
                body = (await response.aread()).decode(errors="replace")
                record.error = _status(response.status_code, body)
            else:
                await _read(_lines(response.stream), record)
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError) as error:
        record.error = _reason(error)
    record.finished = time.perf_counter()
    if record.error is None and not record.arrivals:
        record.error = "the stream ended without any output"
    if record.error is not None:
        record.error = " ".join(record.error.split())
    return record


async def _lines(stream: Any) -> AsyncIterator[str]:
    """Lines of a stream of bytes, each when it is whole."""
    rest = b""
    async for chunk in stream:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace").rstrip("\r")
    yield rest.decode(errors="replace")


async def _read(lines: AsyncIterator[str], record: RequestRecord) -> None:
    """Take in server-sent events. ValueError where one is no JSON object or tells of an error."""
    usage: Mapping[str, Any] = {}
    async for line in lines:
        now = time.perf_counter()
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            break
        event = json.loads(data)
        if not isinstance(event, dict) or "error" in event:
            raise ValueError(f"the stream holds {data[:_ERROR_LENGTH]}")
        usage = event.get("usage") or usage
        for choice in event.get("choices") or ():
            text = output_text(choice)
            if text is not None:
                record.arrivals.append(now)
                record.text += text
    record.prompt_tokens = usage.get("prompt_tokens") or record.prompt_tokens
    record.output_tokens = usage.get("completion_tokens") or len(record.arrivals)


def output_text(choice: Mapping[str, Any]) -> str | None:
    """The text of a choice of a chunk; None where the chunk stands for no token.

    Such are the one that announces the role of a chat and an empty one that ends a stream. An empty
    text within a stream is a token whose text is held back.
    """
    delta = choice.get("delta")
    if delta is None:
        text, announces = choice.get("text"), False
    else:
        text = delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning")
        announces = "role" in delta
    if not text and (announces or choice.get("finish_reason") is not None):
        return None
    return text or ""


def _status(code: int, body: str) -> str:
    """What a server said, in one line."""
    return f"HTTP {code}: {' '.join(body.split())[:_ERROR_LENGTH]}"


def _reason(error: Exception) -> str:
    """What went wrong; some of httpx's errors have no words."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
