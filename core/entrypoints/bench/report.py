"""What a benchmark prints and saves."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform as host
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from runtime.core.entrypoints.cli.collect_env import PACKAGES
from runtime.core.entrypoints.cli.secrets import shown
from runtime.core.errors import RuntimeUserError
from runtime.core.version import own_version

if TYPE_CHECKING:
    from runtime.core.entrypoints.llm import LLM

_NOT_ARGUMENTS = frozenset({"run", "parser"})


def report(
    benchmark: str,
    args: argparse.Namespace,
    results: Mapping[str, Any],
    platform: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The whole of a run as JSON: versions, platform, host, arguments and results.

    ``platform`` is what :func:`platform_facts` says; None where the engine is not ours to ask.
    """
    return {
        "benchmark": benchmark,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "platform": platform,
        "host": host_facts(),
        "arguments": {
            name: _plain(value) for name, value in vars(args).items() if name not in _NOT_ARGUMENTS
        },
        "results": dict(results),
    }


def versions() -> dict[str, str]:
    """Of this distribution, Python and the packages that matter, as far as they are installed."""
    found = {"runtime": own_version(), "python": sys.version.split()[0]}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def platform_facts(llm: LLM) -> dict[str, Any]:
    """What the engine runs on."""
    import torch

    config = llm.engine.config
    return {
        "name": config.platform.name,
        "device": config.platform.devices.name(config.parallel.device_ids[0]),
        "dtype": str(config.model.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
    }


def host_facts() -> dict[str, Any]:
    """The machine."""
    return {
        "os": host.platform(),
        "machine": host.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
    }


def _processor() -> str:
    """The processor's model as Linux has it, else as Python does."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return host.processor()


def _plain(value: Any) -> Any:
    """An argument as JSON has it: no infinity, and no URL's credentials."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return shown("", value) if isinstance(value, str) else value


def save(document: Mapping[str, Any], name: str) -> None:
    """Write a report. RuntimeUserError where the file cannot be written."""
    path = Path(name).expanduser()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise RuntimeUserError(f"{name}: cannot write the results: {error}") from error
    print(f"results in {name}", file=sys.stderr)


def lines(rows: Sequence[tuple[str, float | int | str]], title: str) -> str:
    """Figures below a title, in two columns."""
    values = [f"{v:,.2f}" if isinstance(v, float) else f"{v}" for _, v in rows]
    left = max(len(label) for label, _ in rows)
    right = max(len(value) for value in values)
    body = [
        f"{label:<{left}}  {value:>{right}}" for (label, _), value in zip(rows, values, strict=True)
    ]
    return "\n".join([f" {title} ".center(left + right + 2, "="), *body])
