"""``runtime collect-env``: what a bug report should say. Works on a broken installation."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import platform as host
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from runtime.core.entrypoints.cli.plugins import survey_plugins
from runtime.core.entrypoints.cli.secrets import shown
from runtime.core.version import own_version
from runtime.plugins.manager import default_manager
from runtime.plugins.records import one_line

PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "gguf",
    "numpy",
    "triton",
    "pluggy",
    "msgspec",
    "httpx",
)
_VARIABLES = re.compile(r"^(VLLM_|RUNTIME_|OMP_|MKL_|KMP_|TORCH_|PYTORCH_|HF_|TRANSFORMERS_)")


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "collect-env",
        help="print what a bug report should say",
        description="Print versions, the machine, environment variables and plugins.",
    )
    parser.add_argument("--json", action="store_true", help="Print a JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Collect and print."""
    facts = collect()
    if args.json:
        print(json.dumps(facts, indent=2))
        return 0
    for key in ("runtime", "python", "os", "cpu", "memory"):
        print(f"{key}: {facts[key]}")
    for name, text in facts["packages"].items():
        print(f"{name}: {text}")
    for name, value in facts["environment"].items():
        print(f"${name}: {value}")
    for row in facts["plugins"]:
        origin = f"{row['distribution']} {row['version']}"
        print(f"plugin {row['name']} ({origin}): {row['state']}, {row['reason']}")
    for library in facts["kernel_libraries"]:
        print(_library_line(library))
    for line in facts["hardware"]:
        print(line)
    print(f"platform {facts['platform']}")
    return 0


def collect() -> dict[str, Any]:
    """All facts; each that cannot be had is a text that says why."""
    facts: dict[str, Any] = {
        "runtime": own_version(),
        "python": sys.version.split()[0],
        "os": host.platform(),
        "cpu": f"{host.machine()}, {os.cpu_count()} cores",
        "memory": _memory(),
        "packages": {name: _package(name) for name in PACKAGES},
        "environment": {
            name: shown(name, value)
            for name, value in sorted(os.environ.items())
            if _VARIABLES.match(name)
        },
    }
    facts["packages"]["torch"] = _torch(facts["packages"]["torch"])
    try:
        survey = survey_plugins()
        facts["plugins"], facts["hardware"] = survey.rows, survey.hardware
        facts["platform"] = survey.chosen or f"none: {survey.error}"
    except Exception as caught:
        facts["plugins"], facts["hardware"] = [], []
        facts["platform"] = f"selection failed: {one_line(caught)}"
    facts["kernel_libraries"] = _kernel_libraries()
    return facts


def _kernel_libraries() -> list[dict[str, Any]]:
    """Those of every platform whose class could be imported."""
    libraries: list[dict[str, Any]] = []
    for record in default_manager().platforms():
        platform_class = getattr(record.probed, "platform_class", None)
        if platform_class is None:
            continue
        try:
            found = [dataclasses.asdict(one) for one in platform_class().kernel_libraries]
            libraries += [{"platform": record.name, **one} for one in found]
        except Exception as caught:
            libraries.append({"platform": record.name, "error": one_line(caught)})
    return libraries


def _library_line(library: dict[str, Any]) -> str:
    """One kernel library in words."""
    if "error" in library:
        return f"kernels of {library['platform']}: {library['error']}"
    found = library["found"] or "missing"
    return (
        f"kernels of {library['platform']}: {library['name']} found {found}, "
        f"built for torch {library['built_for']}"
    )


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _torch(found: str) -> str:
    """Torch's version, and whether it can be imported at all."""
    try:
        torch = importlib.import_module("torch")
        return f"{torch.__version__} ({torch.get_num_threads()} threads)"
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return f"import failed: {one_line(error)} (installed: {found})"


def _memory() -> str:
    try:
        psutil = importlib.import_module("psutil")
        memory = psutil.virtual_memory()
    except Exception as error:
        return f"unknown: {one_line(error)}"
    return f"{memory.available / 2**30:.1f} GiB of {memory.total / 2**30:.1f} GiB available"
