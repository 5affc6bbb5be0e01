"""The socket that a server listens on, taken before the model is loaded."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

from runtime.core.entrypoints.server.args import ServerArgs
from runtime.core.errors import ConfigError


class Listener:
    """A bound socket. It refuses connections until somebody listens on it.

    Raises:
        ConfigError: the address is in use, or is none of this machine.
    """

    def __init__(self, args: ServerArgs) -> None:
        self._args = args
        self._path = None if args.uds is None else Path(args.uds)
        self.socket = _bind(args) if self._path is None else _bind_path(self._path)
        self.port: int | None = None if self._path is not None else self.socket.getsockname()[1]
        self.url = self._url()
        """Where clients find the server."""

    def _url(self) -> str:
        if self._path is not None:
            return f"unix:{self._path}"
        host = self.socket.getsockname()[0]
        scheme = "https" if self._args.ssl_certfile else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    def close(self) -> None:
        """Let go of the address."""
        self.socket.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def in_use(self) -> ConfigError:
        """What to tell where another process began to listen between binding and listening."""
        return _in_use(self._args, self.port)


def _bind(args: ServerArgs) -> socket.socket:
    if not 0 <= args.port < 2**16:
        raise ConfigError(f"--port {args.port} must be from 0 to 65535")
    host = args.host or "0.0.0.0"
    try:
        found = socket.getaddrinfo(host, args.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"--host {host!r} is no address: {error}") from error
    family, kind, protocol, _, address = found[0]
    # With the protocol's number: by it asyncio knows where to switch Nagle's algorithm off.
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            raise _in_use(args, args.port) from error
        raise ConfigError(
            f"cannot listen on {host}:{args.port}: {os.strerror(error.errno or 0)}"
        ) from error
    return made


def _in_use(args: ServerArgs, port: int | None) -> ConfigError:
    return ConfigError(
        f"port {port} of {args.host or '0.0.0.0'} is in use: end what listens there, or pass "
        "another --port (0 takes a free one)"
    )


def _bind_path(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        made.bind(str(path))
    except OSError as error:
        made.close()
        raise ConfigError(f"--uds {path}: {error.strerror or error}") from error
    except ConfigError:
        made.close()
        raise
    return made


def _remove_stale(path: Path) -> None:
    """Remove a socket that a server left behind; nothing else."""
    if not path.exists():
        return
    if not stat.S_ISSOCK(path.stat().st_mode):
        raise ConfigError(f"--uds {path} exists and is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink()
            return
    raise ConfigError(f"--uds {path} is in use: end what listens there, or pass another path")
