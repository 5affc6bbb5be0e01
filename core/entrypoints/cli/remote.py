"""A server that speaks the OpenAI API, as the terminal's commands use it."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from runtime.core.entrypoints.cli.sampling import given_sampling
from runtime.core.errors import ConfigError, RequestError, RuntimeUserError

if TYPE_CHECKING:
    import httpx

KEY_VARIABLE = "OPENAI_API_KEY"
_CONNECT_SECONDS = 10.0
_SILENT_SECONDS = 600.0
_ERROR_LENGTH = 1000


def add_server_flags(parser: argparse.ArgumentParser, *, default: str | None) -> None:
    """Add the flags that say which server, and which of its models; ``default`` is its URL."""
    group = parser.add_argument_group("Server")
    shown = f" (default: {default})" if default else ""
    group.add_argument(
        "--url", default=default, metavar="URL", help=f"A server that speaks OpenAI's API{shown}"
    )
    group.add_argument(
        "--model-name", metavar="NAME", help="The model's name; the default is the server's first"
    )
    group.add_argument(
        "--api-key", metavar="KEY", help=f"The server's key; the default is {KEY_VARIABLE}'s"
    )


class RemoteServer:
    """A connection to a server. ``with`` closes it.

    Args:
        url: with or without ``/v1``.
        api_key: sent as a bearer token; None is what OPENAI_API_KEY says.
        model: the model's name; None is the first that the server lists.

    Raises:
        RuntimeUserError: it cannot be reached, or lists no model.
    """

    def __init__(self, url: str, api_key: str | None = None, model: str | None = None) -> None:
        if importlib.util.find_spec("httpx") is None:
            raise ConfigError("httpx is not installed: pip install 'runtime[bench]'")
        import httpx

        base = url.rstrip("/").removesuffix("/v1")
        key = os.environ.get(KEY_VARIABLE) if api_key is None else api_key
        self._url = base
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(_SILENT_SECONDS, connect=_CONNECT_SECONDS),
            follow_redirects=True,
        )
        self._failures = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError)
        try:
            self.model = self._first_model() if model is None else model
        except BaseException:
            self._client.close()
            raise

    @classmethod
    def from_flags(cls, args: argparse.Namespace) -> RemoteServer:
        """The server that a command line names."""
        return cls(args.url, args.api_key, args.model_name)

    def __enter__(self) -> RemoteServer:
        """Use as a context manager: closes the connection at the end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self._client.close()

    def chat(self, messages: list[dict[str, str]], sampling: Mapping[str, Any]) -> Iterator[str]:
        """The answer to a conversation, piece by piece.

        Raises:
            RequestError: the server refuses, or ends the answer with an error.
            RuntimeUserError: it cannot be reached any more.
        """
        return self._stream("/v1/chat/completions", {"messages": messages, **sampling})

    def complete(self, prompt: str, sampling: Mapping[str, Any]) -> Iterator[str]:
        """What follows a text, piece by piece; raises as :meth:`chat` does."""
        return self._stream("/v1/completions", {"prompt": prompt, **sampling})

    def _stream(self, path: str, body: Mapping[str, Any]) -> Iterator[str]:
        payload = {"model": self.model, "stream": True, **body}
        try:
            with self._client.stream("POST", self._url + path, json=payload) as response:
                _check(response)
                for line in response.iter_lines():
                    data = line.removeprefix("data:").strip()
                    if not line.startswith("data:") or data == "[DONE]":
                        continue
                    yield from _pieces(data)
        except self._failures as error:
            raise self._lost(error) from error

    def _first_model(self) -> str:
        try:
            response = self._client.get(f"{self._url}/v1/models")
        except self._failures as error:
            raise self._lost(error) from error
        _check(response)
        try:
            return str(response.json()["data"][0]["id"])
        except (ValueError, LookupError, TypeError):
            raise RuntimeUserError(
                f"{self._url}/v1/models lists no model: name the server's with --model-name"
            ) from None

    def _lost(self, error: Exception) -> RuntimeUserError:
        return RuntimeUserError(f"{self._url}: {error or type(error).__name__}")


def _check(response: httpx.Response) -> None:
    """RequestError with the server's words where it refuses."""
    if response.is_success:
        return
    text = response.read().decode(errors="replace")
    try:
        said = _message(json.loads(text))
    except ValueError:
        said = text
    raise RequestError(f"HTTP {response.status_code}: {' '.join(said.split())[:_ERROR_LENGTH]}")


def _message(body: Any) -> str:
    """The words of an error, in whichever of the usual shapes."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, dict):
        return str(error.get("message") or error.get("detail") or error)
    return str(error)


def _pieces(data: str) -> Iterator[str]:
    try:
        event = json.loads(data)
    except ValueError:
        raise RequestError(f"the server sent {data[:_ERROR_LENGTH]!r}, which is no JSON") from None
    if not isinstance(event, dict) or "error" in event:
        raise RequestError(f"the server ended the answer: {_message(event)}")
    for choice in event.get("choices") or ():
        text = (choice.get("delta") or {}).get("content") or choice.get("text")
        if text:
            yield text


def sampling_of(args: argparse.Namespace) -> dict[str, Any]:
    """The fields of a request that a command line's sampling flags stand for."""
    fields = {"max_tokens": args.max_tokens, **given_sampling(args)}
    for name in ("stop", "stop_token_ids", "ignore_eos"):
        value = getattr(args, name)
        if value:
            fields[name] = value
    return fields
