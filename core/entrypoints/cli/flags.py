"""Command line flags of the engine, made from the fields of ``EngineArgs``: one source."""

from __future__ import annotations

import argparse
import dataclasses
import json
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from runtime.core.config.args import EngineArgs

if TYPE_CHECKING:
    from runtime.core.entrypoints.llm import LLM


def add_engine_flags(parser: argparse.ArgumentParser) -> None:
    """Add the model and a flag for every field, in the groups that the fields name."""
    model = parser.add_argument_group("Model")
    model.add_argument("model_path", nargs="?", metavar="MODEL", help=_model_help())
    model.add_argument("--model", metavar="MODEL", help="The same, as a flag")
    groups = {"Model": model}
    hints = _hints()
    for field in dataclasses.fields(EngineArgs):
        if not field.metadata["cli"]:
            continue
        name = field.metadata["group"]
        if name not in groups:
            groups[name] = parser.add_argument_group(name)
        _add_flag(groups[name], field, hints[field.name])


def engine_args(args: argparse.Namespace, parser: argparse.ArgumentParser) -> EngineArgs:
    """The engine's arguments from a parsed command line; usage and exit 2 without a model."""
    positional, flag = args.model_path, args.model
    if positional and flag and positional != flag:
        parser.error(f"two models are given: {positional!r} and --model {flag!r}")
    if not (positional or flag):
        parser.error("a model is required: MODEL or --model MODEL")
    values = {
        field.name: getattr(args, field.name)
        for field in dataclasses.fields(EngineArgs)
        if field.metadata["cli"]
    }
    return EngineArgs(model=flag or positional, **values)


def open_llm(args: argparse.Namespace, parser: argparse.ArgumentParser) -> LLM:
    """The model that a parsed command line asks for, loaded."""
    given = engine_args(args, parser)
    from runtime.core.entrypoints.llm import LLM

    return LLM(**{field.name: getattr(given, field.name) for field in dataclasses.fields(given)})


def _model_help() -> str:
    fields = {field.name: field for field in dataclasses.fields(EngineArgs)}
    return str(fields["model"].metadata["help"])


def _hints() -> dict[str, Any]:
    """Types of the fields. The platform is a name here: its class is not imported."""
    return get_type_hints(EngineArgs, localns={"Platform": str})


def _add_flag(group: Any, field: dataclasses.Field[Any], hint: Any) -> None:
    flag = f"--{field.name.replace('_', '-')}"
    options: dict[str, Any] = {
        "dest": field.name,
        "default": field.default,
        "help": field.metadata["help"],
    }
    kinds = _kinds(hint)
    if bool in kinds:
        group.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
        return
    if any(get_origin(kind) is Mapping for kind in kinds):
        group.add_argument(flag, type=json_object, metavar="JSON", **options)
        return
    choices = [value for kind in kinds if isinstance(kind, tuple) for value in kind]
    if choices and len(kinds) == 1:
        options["choices"] = choices
    elif int in kinds:
        options["type"] = _integer_or(tuple(choices))
        options["metavar"] = "|".join(["N", *choices])
    else:
        options["metavar"] = field.name.rpartition("_")[2].upper()
    group.add_argument(flag, **options)


def _kinds(hint: Any) -> list[Any]:
    """The members of a union but None; a Literal becomes the tuple of its values."""
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return [
        get_args(member) if get_origin(member) is Literal else member
        for member in members
        if member is not type(None)
    ]


def json_object(text: str) -> dict[str, Any]:
    """Parse a JSON object."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("not a JSON object")
    return value


def _integer_or(words: tuple[str, ...]) -> Callable[[str], int | str]:
    """Parse an integer, or one of some words."""

    def parse(text: str) -> int | str:
        if text in words:
            return text
        try:
            return int(text)
        except ValueError:
            expected = " or ".join(["an integer", *(repr(word) for word in words)])
            raise argparse.ArgumentTypeError(f"{text!r} is not {expected}") from None

    return parse
