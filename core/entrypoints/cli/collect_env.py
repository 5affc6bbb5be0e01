"""``runtime collect-env``: what a bug report should say. Works on a broken installation."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform as host
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from runtime.core.entrypoints.cli.plugins import describe_plugins
from runtime.core.entrypoints.cli.table import format_table
from runtime.core.version import own_version

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
)
_VARIABLES = re.compile(r"^(VLLM_|RUNTIME_|OMP_|MKL_|KMP_|TORCH_|PYTORCH_|HF_|TRANSFORMERS_)")
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)


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
    rows = [(key, str(facts[key])) for key in ("runtime", "python", "os", "cpu", "memory")]
    rows += [(name, text) for name, text in facts["packages"].items()]
    rows += [(f"${name}", value) for name, value in facts["environment"].items()]
    print(format_table(("NAME", "VALUE"), rows))
    print()
    for row in facts["plugins"]:
        print(
            f"plugin {row['name']} ({row['distribution']} {row['version']}): {row['state']}"
            f", {row['reason']}"
        )
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
            name: "(hidden)" if _SECRET.search(name) else value
            for name, value in sorted(os.environ.items())
            if _VARIABLES.match(name)
        },
    }
    facts["packages"]["torch"] = _torch(facts["packages"]["torch"])
    try:
        rows, chosen, error = describe_plugins()
        facts["plugins"], facts["platform"] = rows, chosen or f"none: {error}"
    except Exception as caught:
        facts["plugins"], facts["platform"] = [], f"selection failed: {_line(caught)}"
    return facts


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
        return f"{found}; import failed: {_line(error)}"


def _memory() -> str:
    try:
        psutil = importlib.import_module("psutil")
        memory = psutil.virtual_memory()
    except Exception as error:
        return f"unknown: {_line(error)}"
    return f"{memory.available / 2**30:.1f} GiB of {memory.total / 2**30:.1f} GiB available"


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
