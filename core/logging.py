"""Where log lines go when the command line owns the process: to stderr, plugins' lines included.

A library does not set up logging: an application that imports ``runtime`` sees its lines, and those
of plugins, by its own handlers.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Collection, Mapping

from runtime.core.errors import ConfigError
from runtime.plugins.manager import default_manager

LEVEL_VARIABLE = "VLLM_LOGGING_LEVEL"
OWN_LOGGER = "runtime"
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_TIME = "%H:%M:%S"


class PluginHandler(logging.Handler):
    """Shows the lines of one plugin's package, unless the package has a handler of its own."""

    def __init__(self, package: str) -> None:
        super().__init__()
        self.package = package
        self.setFormatter(
            logging.Formatter(f"%(levelname)s %(asctime)s [{package}] %(message)s", _TIME)
        )

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line to stderr, as it is now."""
        others = [it for it in logging.getLogger(self.package).handlers if it is not self]
        if not others:
            # One write, so that lines of several processes do not mix.
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()


def logging_level(environ: Mapping[str, str] = os.environ) -> int:
    """The level that VLLM_LOGGING_LEVEL names, in any case; INFO where it is unset or blank.

    Raises:
        ConfigError: it is no level.
    """
    name = environ.get(LEVEL_VARIABLE, "").strip().upper() or "INFO"
    if name not in _LEVELS:
        known = ", ".join(_LEVELS)
        raise ConfigError(f"{LEVEL_VARIABLE}={name!r} must be one of {known}")
    return logging.getLevelNamesMapping()[name]


def set_up_logging(level: int | None = None, *, process: str | None = None) -> None:
    """Log to stderr, so that stdout has results alone; for the process that a command line owns.

    Each plugin's own logger, that of its import package, gets a handler before the package is
    imported, so that ``logging.getLogger(__name__)`` is all that a plugin needs.

    Args:
        level: The least level shown; None is what VLLM_LOGGING_LEVEL says.
        process: What lines call this process, where several write to one stderr.

    Raises:
        ConfigError: VLLM_LOGGING_LEVEL is no level.
    """
    least = logging_level() if level is None else level
    handler = logging.StreamHandler(sys.stderr)
    name = f"({process} {os.getpid()}) " if process else ""
    handler.setFormatter(logging.Formatter(f"%(levelname)s %(asctime)s {name}%(message)s", _TIME))
    logger = logging.getLogger(OWN_LOGGER)
    logger.handlers[:] = [handler]
    logger.setLevel(least)
    logger.propagate = False
    # Finding plugins may have something to tell already.
    default_manager().before_import = lambda package: show_plugin(package, least)


def show_server_log(level: str, quiet_paths: Collection[str] = ()) -> None:
    """Show the lines of the HTTP server's library where ours are shown.

    Args:
        level: The least level shown, by uvicorn's names.
        quiet_paths: Paths whose requests get no line in the access log.
    """
    library = logging.getLogger("uvicorn")
    library.handlers[:] = logging.getLogger(OWN_LOGGER).handlers
    library.propagate = False
    # "trace" is uvicorn's own level below DEBUG.
    library.setLevel(5 if level == "trace" else level.upper())
    access = logging.getLogger("uvicorn.access")
    access.filters[:] = [lambda record: _path_of(record) not in quiet_paths]


def _path_of(record: logging.LogRecord) -> str | None:
    """The path in a line of uvicorn's access log: client, method, path, version, status."""
    match record.args:
        case (_, _, str(path), *_):
            return path.partition("?")[0]
    return None


def show_plugin(package: str, level: int) -> None:
    """Show the lines that a plugin's import package logs, each once."""
    logger = logging.getLogger(package)
    if package == OWN_LOGGER or any(isinstance(it, PluginHandler) for it in logger.handlers):
        return
    logger.addHandler(PluginHandler(package))
    logger.propagate = False
    if logger.level == logging.NOTSET:
        logger.setLevel(level)


def is_set_up() -> bool:
    """Whether :func:`set_up_logging` was called in this process."""
    return not logging.getLogger(OWN_LOGGER).propagate
