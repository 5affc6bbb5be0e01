"""Command line flags made from the fields of dataclasses: one source for both."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, get_origin, get_type_hints

from runtime.core.config.args import EngineArgs
from runtime.core.entrypoints.cli import values

if TYPE_CHECKING:
    from runtime.core.entrypoints.llm import LLM

T = TypeVar("T")
Groups = dict[str, Any]
"""A parser's groups of arguments, by name."""


def add_engine_flags(parser: argparse.ArgumentParser, *, explicit: bool = False) -> Groups:
    """Add the model and a flag for every field, in the groups that the fields name.

    ``explicit``: the parsed namespace has what was given and no defaults.
    """
    model = parser.add_argument_group("Model")
    model.add_argument("model_path", nargs="?", metavar="MODEL", help=_model_help())
    model.add_argument("--model", metavar="MODEL", help="The same, as a flag")
    groups = {"Model": model}
    add_fields(parser, EngineArgs, groups, explicit=explicit)
    return groups


def add_fields(
    parser: argparse.ArgumentParser,
    cls: type[Any],
    groups: Groups,
    *,
    explicit: bool = False,
    names: Collection[str] | None = None,
) -> None:
    """Add a flag for every field of a dataclass, or for those of these names.

    ``groups`` gains the groups that it lacks.
    """
    hints = hints_of(cls)
    for field in flag_fields(cls):
        if names is not None and field.name not in names:
            continue
        name = field.metadata["group"]
        if name not in groups:
            groups[name] = parser.add_argument_group(name)
        _add_flag(groups[name], field, hints[field.name], explicit=explicit)


def flag_fields(cls: type[Any]) -> list[dataclasses.Field[Any]]:
    """The fields of a dataclass that have flags."""
    return [field for field in dataclasses.fields(cls) if field.metadata["cli"]]


def hints_of(cls: type[Any]) -> dict[str, Any]:
    """Types of the fields. The platform is a name here: its class is not imported."""
    return get_type_hints(cls, localns={"Platform": str})


def model_of(args: argparse.Namespace, parser: argparse.ArgumentParser) -> str | None:
    """The model that a command line names, in whichever way; usage and exit 2 where it has two."""
    positional, flag = args.model_path, args.model
    if positional and flag and positional != flag:
        parser.error(f"two models are given: {positional!r} and --model {flag!r}")
    return flag or positional or None


def engine_args(args: argparse.Namespace, parser: argparse.ArgumentParser) -> EngineArgs:
    """The engine's arguments from a parsed command line; usage and exit 2 without a model."""
    model = model_of(args, parser)
    if model is None:
        parser.error("a model is required: MODEL or --model MODEL")
    return EngineArgs(
        model=model,
        **{field.name: getattr(args, field.name) for field in flag_fields(EngineArgs)},
    )


def open_llm(args: argparse.Namespace, parser: argparse.ArgumentParser) -> LLM:
    """The model that a parsed command line asks for, loaded."""
    given = engine_args(args, parser)
    from runtime.core.entrypoints.llm import LLM

    return LLM(**{field.name: getattr(given, field.name) for field in dataclasses.fields(given)})


def json_object(text: str) -> dict[str, Any]:
    """A JSON object as the ``type`` of a flag."""
    value: dict[str, Any] = _typed(Mapping[str, Any])(text)
    return value


def flag_of(name: str) -> str:
    """The flag of a field."""
    return f"--{name.replace('_', '-')}"


def _model_help() -> str:
    fields = {field.name: field for field in dataclasses.fields(EngineArgs)}
    return str(fields["model"].metadata["help"])


def _add_flag(group: Any, field: dataclasses.Field[Any], hint: Any, *, explicit: bool) -> None:
    options: dict[str, Any] = {
        "dest": field.name,
        "default": argparse.SUPPRESS if explicit else field.default,
        "help": _help(field),
    }
    kinds = values.members(hint)
    if bool in kinds:
        group.add_argument(flag_of(field.name), action=argparse.BooleanOptionalAction, **options)
        return
    item, words = values.element(hint), values.words_of(hint)
    options["metavar"] = field.name.rpartition("_")[2].upper()
    if item is not None:
        options |= {"action": Several, "nargs": "+", "type": str, "item": item}
    elif any(get_origin(kind) is Mapping for kind in kinds):
        options |= {"type": _typed(hint), "metavar": "JSON"}
    elif words and len(kinds) == 1:
        options |= {"choices": words, "metavar": None}
    else:
        options["type"] = _typed(hint)
        if int in kinds or float in kinds:
            options["metavar"] = "|".join(["N" if int in kinds else "X", *words])
    group.add_argument(flag_of(field.name), **options)


def _help(field: dataclasses.Field[Any]) -> str:
    """The field's text, with its default where that says something and the text does not."""
    text, default = str(field.metadata["help"]), field.default
    if default in (None, False, "", ()) or "default" in text:
        return text
    shown = {True: "on"}.get(default, default) if isinstance(default, bool) else default
    return f"{text} (default: {' '.join(shown) if isinstance(shown, tuple) else shown})"


def _typed(hint: Any) -> Callable[[str], Any]:
    """A conversion whose error argparse shows as it is."""

    def convert(text: str) -> Any:
        try:
            return values.parse(hint, text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


class Several(argparse.Action):
    """A flag that takes several words, a JSON list, or comes several times."""

    def __init__(self, *args: Any, item: Any = str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._item = item

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        given: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Add to what the flag was given before."""
        words = [str(word) for word in given or ()]
        try:
            if len(words) == 1 and words[0].startswith("["):
                items = tuple(values.from_yaml(self._item, it) for it in json.loads(words[0]))
            else:
                items = tuple(values.parse(self._item, word) for word in words)
        except ValueError as error:
            raise argparse.ArgumentError(self, str(error)) from None
        before = getattr(namespace, self.dest, None)
        # The default, a plain tuple, is replaced; what the flag gave before is added to.
        kept = before if isinstance(before, _Given) else ()
        setattr(namespace, self.dest, _Given((*kept, *items)))


class _Given(tuple[Any, ...]):
    """What a flag that takes several words was given so far."""

    __slots__ = ()
