"""The errors that users meet, each one clear line.

::

    RuntimeUserError            anything the user can mend; exit code 2 on the command line
    ├── ConfigError             an argument, alone or against another
    ├── PlatformError           no platform, or not the one asked for
    ├── ModelLoadError          a checkpoint or tokenizer that cannot be loaded
    └── RequestError            one request that cannot be served; has ``param``

    EngineDeadError             the engine's process has ended; says why
"""

from __future__ import annotations


class RuntimeUserError(ValueError):
    """Something the user can mend; the message says how."""


class ConfigError(RuntimeUserError):
    """An engine argument that is out of range or contradicts another."""


class PlatformError(RuntimeUserError):
    """No platform can be chosen, or the one named cannot run."""


class ModelLoadError(RuntimeUserError):
    """A checkpoint, config or tokenizer that is missing, damaged or unknown."""


class RequestError(RuntimeUserError):
    """A request that is refused. No other request is affected."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        """The field at fault, as the user spelled it."""


class EngineDeadError(RuntimeError):
    """The engine's process has ended: no request can be served any more."""
