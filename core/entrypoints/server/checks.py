"""What can be found wrong with a server's arguments before a model is loaded."""

from __future__ import annotations

import ssl
from pathlib import Path

from runtime.core.entrypoints.server.api_keys import api_keys
from runtime.core.entrypoints.server.args import ServerArgs
from runtime.core.entrypoints.server.context import check_names
from runtime.core.entrypoints.server.stats_line import log_interval
from runtime.core.errors import ConfigError


def check(args: ServerArgs) -> None:
    """Refuse what would fail only after the model is loaded.

    Raises:
        ConfigError: a number is out of range, a name is unknown, or a file of TLS cannot be used.
    """
    check_names(args)
    api_keys(args.api_key)
    log_interval()
    for name in ("shutdown_timeout", "max_request_bytes"):
        if getattr(args, name) < 0:
            raise ConfigError(f"--{name.replace('_', '-')} {getattr(args, name)} is negative")
    if args.api_server_count < 1:
        raise ConfigError(f"--api-server-count {args.api_server_count} must be at least 1")
    if args.max_log_len is not None and args.max_log_len < 0:
        raise ConfigError(f"--max-log-len {args.max_log_len} is negative")
    if args.root_path and not args.root_path.startswith("/"):
        raise ConfigError(f"--root-path {args.root_path!r} must begin with /")
    if args.ssl_certfile is None:
        given = [name for name in ("ssl_keyfile", "ssl_ca_certs") if getattr(args, name)]
        if given:
            raise ConfigError(f"--{given[0].replace('_', '-')} needs --ssl-certfile")
        return
    if args.ssl_cert_reqs not in (0, 1, 2):
        raise ConfigError(f"--ssl-cert-reqs {args.ssl_cert_reqs} must be 0, 1 or 2")
    for name in ("ssl_certfile", "ssl_keyfile", "ssl_ca_certs"):
        path = getattr(args, name)
        if path is not None and not Path(path).is_file():
            raise ConfigError(f"--{name.replace('_', '-')} {path}: there is no such file")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            args.ssl_certfile, args.ssl_keyfile, password=lambda: ""
        )
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigError(
            f"--ssl-certfile {args.ssl_certfile} and --ssl-keyfile {args.ssl_keyfile} cannot be "
            f"used: {error}"
        ) from error
