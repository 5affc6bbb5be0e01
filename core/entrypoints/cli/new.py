"""``runtime new-platform`` and ``runtime new-model``: write a package to begin from."""

from __future__ import annotations

import argparse
import keyword
import re
from collections.abc import Mapping
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from runtime.core.errors import ConfigError
from runtime.plugins import PLUGIN_API_VERSION
from runtime.plugins.groups import GENERAL_GROUP, PLATFORM_GROUP

# Templates of each kind, and where they go; $package is replaced in paths, too.
_FILES: tuple[tuple[str, str, str], ...] = (
    ("platform", "pyproject.toml", "pyproject.toml"),
    ("platform", "README.md", "README.md"),
    ("platform", "__init__.py", "$package/__init__.py"),
    ("platform", "platform.py", "$package/platform.py"),
    ("platform", "roles.py", "$package/roles.py"),
    ("platform", "ops.py", "$package/ops.py"),
    ("platform", "test_platform.py", "tests/test_$package.py"),
    ("model", "pyproject.toml", "pyproject.toml"),
    ("model", "README.md", "README.md"),
    ("model", "__init__.py", "$package/__init__.py"),
    ("model", "model.py", "$package/model.py"),
    ("model", "test_model.py", "tests/test_$package.py"),
)
_GROUPS: Mapping[str, str] = {"platform": PLATFORM_GROUP, "model": GENERAL_GROUP}
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def add_parser(subparsers: Any) -> None:
    """Add both commands."""
    for kind in ("platform", "model"):
        parser = subparsers.add_parser(
            f"new-{kind}",
            help=f"write a package to begin a {kind} from",
            description=f"Write an installable package with a minimal {kind} that passes its own "
            "tests at once.",
        )
        parser.add_argument("name", metavar="NAME", help="Lower-case letters, digits and _")
        parser.add_argument("--output", metavar="DIR", help="Where to write; the default is ./NAME")
        parser.set_defaults(run=run, kind=kind)


def run(args: argparse.Namespace) -> int:
    """Write the package and say what to do next."""
    target = Path(args.output or args.name)
    write_package(args.kind, args.name, target)
    print(f"wrote {target}\nnext:\n  pip install {target}\n  runtime plugins")
    if args.kind == "platform":
        print(f"  runtime conformance --platform {args.name}")
    print(f"  pytest {target / 'tests'}")
    return 0


def write_package(kind: str, name: str, target: Path) -> None:
    """Write a package of that kind into a new folder.

    Raises:
        ConfigError: the name is no lower-case identifier or is taken, or the folder exists.
    """
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ConfigError(
            f"name {name!r} must be lower-case letters, digits and _, begin with a letter, and be "
            "no keyword of Python"
        )
    if name in entry_points(group=_GROUPS[kind]).names:
        raise ConfigError(f"name {name!r} is taken by an installed plugin; choose another")
    if target.exists():
        raise ConfigError(f"{target} exists; name another folder with --output")
    package = f"{name}_{kind}"
    values = {
        "name": name,
        "package": package,
        "dashed": package.replace("_", "-"),
        "class_name": "".join(word.capitalize() for word in package.split("_")),
        "api": ", ".join(map(str, PLUGIN_API_VERSION)),
    }
    if kind == "model":
        values["class_name"] = "".join(word.capitalize() for word in name.split("_"))
    templates = files("runtime.core.templates") / kind
    for of_kind, source, place in _FILES:
        if of_kind != kind:
            continue
        path = target / Template(place).substitute(values)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = (templates / f"{source}.txt").read_text(encoding="utf-8")
        path.write_text(Template(text).substitute(values), encoding="utf-8")
