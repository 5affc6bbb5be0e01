"""``--help`` of a command with many flags: the common ones, one group's, or all."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


class GroupHelp(argparse.Action):
    """``--help`` shows common flags and the groups, ``--help=Group``, ``=all`` or ``=flag`` more.

    ``common`` are the flags that the short help shows.
    """

    def __init__(
        self,
        option_strings: Sequence[str],
        dest: str,
        *,
        common: Sequence[str] = (),
        metavar: str | None = None,
        help: str | None = None,
    ) -> None:
        super().__init__(
            option_strings, dest, nargs="?", default=argparse.SUPPRESS, metavar=metavar, help=help
        )
        self._common = common

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        _namespace: argparse.Namespace,
        wanted: Any,
        _option: str | None = None,
    ) -> None:
        """Print and end; exit 2 where nothing is called that."""
        text = self._short(parser) if wanted is None else self._about(parser, str(wanted))
        if text is None:
            groups = ", ".join(str(group.title) for group in _groups(parser))
            parser.error(f"--help={wanted}: no group and no flag has this name; groups: {groups}")
        print(text, end="")
        parser.exit()

    def _about(self, parser: argparse.ArgumentParser, wanted: str) -> str | None:
        if wanted.lower() == "all":
            return parser.format_help()
        for group in _groups(parser):
            if str(group.title).lower() == wanted.lower():
                return _format(parser, [(str(group.title), group._group_actions)])
        part = wanted.lower().lstrip("-").replace("_", "-")
        found = [
            (str(group.title), actions)
            for group in _groups(parser)
            if (actions := [a for a in group._group_actions if _is_called(a, part)])
        ]
        return _format(parser, found) if found else None

    def _short(self, parser: argparse.ArgumentParser) -> str:
        every = [action for group in _groups(parser) for action in group._group_actions]
        common = [a for a in every if {a.dest, *a.option_strings} & set(self._common)]
        lines = [
            f"  {group.title!s:<20}{len(group._group_actions)} flags" for group in _groups(parser)
        ]
        return (
            f"usage: {parser.prog} MODEL [flags]\n\n{parser.description}\n\n"
            f"{_format(parser, [('Common flags', common)])}\n"
            "More, by --help=GROUP, --help=FLAG or --help=all:\n" + "\n".join(lines) + "\n"
        )


def _groups(parser: argparse.ArgumentParser) -> list[argparse._ArgumentGroup]:
    return [group for group in parser._action_groups if group._group_actions]


def _is_called(action: argparse.Action, part: str) -> bool:
    return any(part in option.lstrip("-") for option in action.option_strings)


def _format(
    parser: argparse.ArgumentParser, sections: Sequence[tuple[str, Sequence[argparse.Action]]]
) -> str:
    formatter = parser.formatter_class(prog=parser.prog)
    for title, actions in sections:
        formatter.start_section(title)
        formatter.add_arguments(actions)
        formatter.end_section()
    return formatter.format_help()
