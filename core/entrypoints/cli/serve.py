"""``runtime serve``: a model behind an OpenAI-compatible HTTP server."""

from __future__ import annotations

import argparse
import importlib.util
from typing import Any, TypeVar

from runtime.core.config.args import EngineArgs
from runtime.core.entrypoints.cli.config_file import read_config_file
from runtime.core.entrypoints.cli.flags import (
    add_engine_flags,
    add_fields,
    flag_fields,
    hints_of,
    model_of,
)
from runtime.core.entrypoints.cli.group_help import GroupHelp
from runtime.core.entrypoints.server.args import ServerArgs
from runtime.core.errors import ConfigError

T = TypeVar("T", EngineArgs, ServerArgs)

_COMMON = (
    *("model_path", "--model", "--config", "--host", "--port", "--served-model-name", "--api-key"),
    *("--dtype", "--max-model-len", "--platform", "--tensor-parallel-size"),
    *("--memory-utilization", "--max-num-seqs"),
)
_NEEDED = ("fastapi", "uvicorn", "uvloop", "prometheus_client")


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "serve",
        allow_abbrev=False,
        add_help=False,
        help="serve a model over HTTP, as OpenAI's API",
        description="Serve a model over HTTP, as OpenAI's API.",
    )
    groups = add_engine_flags(parser, explicit=True)
    options = parser.add_argument_group("Options")
    options.add_argument(
        "-h",
        "--help",
        action=GroupHelp,
        common=_COMMON,
        metavar="GROUP",
        help="Show common flags and the groups; a group's or a flag's name, or all, shows more",
    )
    options.add_argument(
        "--config", metavar="FILE", help="YAML file of flags; the command line wins over it"
    )
    add_fields(parser, ServerArgs, groups, explicit=True)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Serve until told to end."""
    engine, server = arguments(args)
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"{missing[0]} is not installed: pip install 'runtime[serve]'")
    from runtime.core.entrypoints.server.launch import serve

    return serve(engine, server)


def arguments(args: argparse.Namespace) -> tuple[EngineArgs, ServerArgs]:
    """What was asked for: of the command line, else of the config file, else the defaults.

    Raises:
        ConfigError: the config file will not do.
    """
    hints = {
        field.name: hints_of(cls)[field.name]
        for cls in (EngineArgs, ServerArgs)
        for field in flag_fields(cls)
    }
    values: dict[str, Any] = {}
    if args.config is not None:
        values = read_config_file(args.config, {**hints, "model": str})
    values.update({name: getattr(args, name) for name in hints if hasattr(args, name)})
    model = model_of(args, args.parser) or values.get("model")
    if model is None:
        args.parser.error("a model is required: MODEL or --model MODEL")
    values["model"] = model
    return _build(EngineArgs, values), _build(ServerArgs, values)


def _build(cls: type[T], values: dict[str, Any]) -> T:
    names = [name for name in cls.__dataclass_fields__ if name in values]
    return cls(**{name: _plain(values[name]) for name in names})


def _plain(value: Any) -> Any:
    """A list flag's words as a plain tuple."""
    return tuple(value) if isinstance(value, tuple) else value
