"""What an operator may ask of the server: one source for the command line and for ``build_app``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


def _arg(group: str, text: str, default: Any) -> Any:
    """A field with its help text."""
    return field(default=default, metadata={"group": group, "help": text, "cli": True})


@dataclass(frozen=True)
class ServerArgs:
    """Arguments of the server, as the user gave them."""

    host: str | None = _arg("Server", "Address to listen on; the default is every interface", None)
    port: int = _arg("Server", "TCP port to listen on; 0 takes a free one", 8000)
    served_model_name: tuple[str, ...] = _arg(
        "Server", "Names that requests may call the model by; the first one is in answers", ()
    )
    max_request_bytes: int = _arg(
        "Server", "Largest body of a request, in bytes; larger ones get status 413", 16 * 1024**2
    )
    chat_template: str | None = _arg(
        "Chat", "Chat template, as a file or as Jinja text; the default is the model's own", None
    )
    chat_template_content_format: Literal["auto", "string", "openai"] = _arg(
        "Chat",
        "How messages reach the template: as a string, or as a list of parts; auto reads the "
        "template",
        "auto",
    )
    trust_request_chat_template: bool = _arg(
        "Chat", "Let requests bring a chat template of their own", False
    )
    response_role: str = _arg("Chat", "Role of generated messages", "assistant")
    enable_auto_tool_choice: bool = _arg(
        "Chat", "Let the model decide to call tools; needs --tool-call-parser", False
    )
    tool_call_parser: str | None = _arg("Chat", "How the model writes tool calls", None)
    reasoning_parser: str | None = _arg("Chat", "How the model marks its thoughts", None)
