"""Starting processes that have the same plugins as the one that starts them."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.process import BaseProcess
from typing import Any

from tqdm import tqdm

from runtime.core.errors import ConfigError, PlatformError
from runtime.core.logging import is_set_up, logging_level, set_up_logging
from runtime.core.platform.interface import Platform
from runtime.plugins.manager import default_manager

METHOD_VARIABLE = "VLLM_WORKER_MULTIPROC_METHOD"


def start_method(platform: Platform, environ: Mapping[str, str] = os.environ) -> str:
    """How processes start: what VLLM_WORKER_MULTIPROC_METHOD says, else what the platform says.

    Raises:
        ConfigError: the variable names a method that this system has not.
        PlatformError: the platform does.
    """
    methods = multiprocessing.get_all_start_methods()
    asked = environ.get(METHOD_VARIABLE, "").strip()
    method = asked or platform.process_start_method
    if method in methods:
        return method
    known = ", ".join(methods)
    if asked:
        raise ConfigError(f"{METHOD_VARIABLE}={asked!r} must be one of {known}")
    raise PlatformError(
        f"platform {platform.name!r} starts processes by {method!r}, which this system has not; "
        f"set {METHOD_VARIABLE} to one of {known}"
    )


def start_process(
    platform: Platform,
    target: Callable[..., object],
    args: Sequence[Any] = (),
    *,
    name: str | None = None,
    daemon: bool = True,
    environ: Mapping[str, str] = os.environ,
) -> BaseProcess:
    """Start ``target(*args)`` in a process of its own, with general plugins loaded first.

    Target and arguments are pickled unless the method is ``fork``. The process shows log lines
    where its parent does. A ``daemon`` ends with its parent and may start no processes itself.

    Raises:
        ConfigError, PlatformError: no usable start method, as :func:`start_method` says.
    """
    context = multiprocessing.get_context(start_method(platform, environ))
    level = logging_level() if is_set_up() else None
    process: BaseProcess = context.Process(  # type: ignore[attr-defined]
        target=_run, args=(target, tuple(args), level, name), name=name, daemon=daemon
    )
    process.start()
    return process


def _run(
    target: Callable[..., object], args: tuple[Any, ...], level: int | None, name: str | None
) -> None:
    """What the new process does. A forked one has its parent's plugins and loads none again."""
    if level is not None:
        set_up_logging(level, process=name)
    # Progress bars would share a named semaphore between processes, which outlives a killed one.
    tqdm.set_lock(threading.RLock())
    default_manager().load_general()
    target(*args)
