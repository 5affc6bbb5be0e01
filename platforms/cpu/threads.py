"""Threads of a CPU worker, and the cores they are bound to.

``VLLM_CPU_OMP_THREADS_BIND`` is ``auto`` (default), ``nobind``, or lists of cores such as
``0-3,8`` with one list a worker between ``|``. Only lists pin: two engines may share a process,
and neither should take the other's cores unasked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from runtime.core.errors import ConfigError
from runtime.platforms.cpu.cgroups import ROOT
from runtime.platforms.cpu.hardware import (
    format_cores,
    online_cores,
    parse_cores,
    usable_cores,
    worker_threads,
)

BIND_VARIABLE = "VLLM_CPU_OMP_THREADS_BIND"
THREADS_VARIABLE = "OMP_NUM_THREADS"


@dataclass(frozen=True)
class ThreadPlan:
    """How a worker computes."""

    threads: int | None
    """Threads of an op; None leaves torch's own choice."""
    cores: frozenset[int] | None = None
    """Cores to pin all threads to; None pins nothing."""


def workers_bound(environ: Mapping[str, str]) -> int:
    """Workers that the variable has cores for; 1 where it lists none."""
    return _setting(environ).count("|") + 1


def plan_threads(environ: Mapping[str, str], index: int, root: Path = ROOT) -> ThreadPlan:
    """What the environment asks for worker ``index``.

    Raises ConfigError where a value is malformed, names a core that is not there, or lists no
    cores for this worker.
    """
    setting = _setting(environ)
    if setting == "nobind":
        return ThreadPlan(_user_threads(environ))
    if setting == "auto":
        return ThreadPlan(_user_threads(environ) or worker_threads(root))
    parts = setting.split("|")
    if index >= len(parts):
        raise ConfigError(
            f"{BIND_VARIABLE}={setting!r} lists cores for {len(parts)} worker(s), but there is a"
            f" worker {index}: add a list after '|'"
        )
    try:
        cores = parse_cores(parts[index])
    except ValueError:
        raise ConfigError(
            f"{BIND_VARIABLE}={setting!r}: {parts[index]!r} is not a list of cores; give 'auto',"
            " 'nobind' or a list such as '0-3,8'"
        ) from None
    allowed = online_cores(root)
    if not cores <= allowed:
        raise _not_allowed(setting, cores - allowed, allowed)
    return ThreadPlan(len(cores), cores)


def apply_plan(plan: ThreadPlan, environ: Mapping[str, str]) -> str:
    """Set torch's thread count and the affinity of every thread there is.

    Threads made later, OpenMP's among them, inherit it. Returns a line for the log. Raises
    ConfigError, and changes nothing, where the system refuses the cores.
    """
    if plan.cores is not None:
        _pin(plan.cores, _setting(environ))
    if plan.threads is not None:
        torch.set_num_threads(plan.threads)
    count = torch.get_num_threads()
    threads = f"{count} thread{'s' if count > 1 else ''}"
    if plan.cores is None:
        return f"{threads}, not bound to cores"
    return f"{threads} bound to core{'s' if count > 1 else ''} {format_cores(plan.cores)}"


def _pin(cores: frozenset[int], setting: str) -> None:
    if not hasattr(os, "sched_setaffinity"):
        raise ConfigError(
            f"{BIND_VARIABLE}={setting!r}: this system cannot bind threads to cores; use 'nobind'"
        )
    before = usable_cores()
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        raise _not_allowed(setting, cores, before) from error
    granted = usable_cores()
    if granted != cores:
        # The kernel drops the cores that a cpuset forbids, without an error.
        os.sched_setaffinity(0, before)
        raise _not_allowed(setting, cores - granted, before | granted)
    for task in Path("/proc/self/task").iterdir():
        try:
            os.sched_setaffinity(int(task.name), cores)
        except ProcessLookupError:
            continue  # The thread ended between the listing and the call.


def _not_allowed(setting: str, missing: frozenset[int], allowed: frozenset[int]) -> ConfigError:
    return ConfigError(
        f"{BIND_VARIABLE}={setting!r}: core(s) {format_cores(missing)} cannot be used here;"
        f" choose from {format_cores(allowed)}"
    )


def _setting(environ: Mapping[str, str]) -> str:
    return environ.get(BIND_VARIABLE, "").strip() or "auto"


def _user_threads(environ: Mapping[str, str]) -> int | None:
    """``OMP_NUM_THREADS``, whose first number is the outermost level's."""
    text = environ.get(THREADS_VARIABLE, "").strip()
    if not text:
        return None
    first = text.split(",")[0].strip()
    if not (first.isdecimal() and int(first) > 0):
        raise ConfigError(f"{THREADS_VARIABLE}={text!r} is not a positive number of threads")
    return int(first)
