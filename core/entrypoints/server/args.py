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
    uds: str | None = _arg("Server", "Unix domain socket to listen on, in place of a port", None)
    root_path: str = _arg(
        "Server", "Path under which a proxy in front shows the server: /models/a", ""
    )
    served_model_name: tuple[str, ...] = _arg(
        "Server", "Names that requests may call the model by; the first one is in answers", ()
    )
    max_request_bytes: int = _arg(
        "Server", "Largest body of a request, in bytes; larger ones get status 413", 16 * 1024**2
    )
    api_server_count: int = _arg(
        "Server", "Processes that serve HTTP and tokenise, over one engine", 1
    )
    shutdown_timeout: float = _arg(
        "Server",
        "Seconds that running requests get to finish when the server is told to end; new ones get "
        "status 503 meanwhile. 0 ends them at once",
        0.0,
    )
    api_key: tuple[str, ...] = _arg(
        "Security",
        "Keys of which each request to /v1 must bring one, as Authorization: Bearer KEY; the "
        "default is VLLM_API_KEY's, if that is set",
        (),
    )
    allowed_origins: tuple[str, ...] = _arg("Security", "Origins that CORS allows", ("*",))
    allowed_methods: tuple[str, ...] = _arg("Security", "Methods that CORS allows", ("*",))
    allowed_headers: tuple[str, ...] = _arg("Security", "Headers that CORS allows", ("*",))
    allow_credentials: bool = _arg("Security", "Let CORS requests bring credentials", False)
    ssl_keyfile: str | None = _arg("Security", "PEM file of the server's private key", None)
    ssl_certfile: str | None = _arg(
        "Security", "PEM file of the server's certificate, which makes it speak HTTPS", None
    )
    ssl_ca_certs: str | None = _arg(
        "Security", "PEM file of the authorities that clients' certificates must come from", None
    )
    ssl_cert_reqs: int = _arg(
        "Security", "Whether clients need certificates: 0 no, 1 they may have one, 2 yes", 0
    )
    ssl_ciphers: str = _arg("Security", "Ciphers, as OpenSSL lists them", "DEFAULT")
    uvicorn_log_level: Literal["critical", "error", "warning", "info", "debug", "trace"] = _arg(
        "Logging", "Least level of the HTTP server's own log", "info"
    )
    disable_uvicorn_access_log: bool = _arg("Logging", "No log line for each request", False)
    disable_access_log_for_endpoints: tuple[str, ...] = _arg(
        "Logging", "Paths whose requests have no log line: /health /metrics", ()
    )
    enable_log_requests: bool = _arg(
        "Logging", "Log each request's prompt and sampling parameters", False
    )
    enable_log_outputs: bool = _arg("Logging", "Log what each request generated", False)
    max_log_len: int | None = _arg(
        "Logging", "Most characters or token ids of a prompt or an output that are logged", None
    )
    disable_log_stats: bool = _arg(
        "Logging", "No line of throughput and load every 10 seconds", False
    )
    enable_request_id_headers: bool = _arg(
        "Logging", "Answer with the header X-Request-Id: the client's, or a new one", True
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
