"""Flags from a YAML file: ``max-model-len: 4096``. The command line wins over it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runtime.core.entrypoints.cli.values import from_yaml
from runtime.core.errors import ConfigError


def read_config_file(name: str, hints: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a file, by field.

    Args:
        name: path of the file.
        hints: types of the fields that it may set, by name. Keys may have dashes.

    Raises:
        ConfigError: the file cannot be read, or a key or a value will not do.
    """
    import yaml  # not needed to parse a command line

    try:
        data = yaml.safe_load(Path(name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config {name}: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"--config {name}: not YAML: {' '.join(str(error).split())}") from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"--config {name} must hold 'flag: value' lines")
    values: dict[str, Any] = {}
    for key, value in data.items():
        field = str(key).replace("-", "_")
        if field not in hints:
            near = difflib.get_close_matches(field, hints, 1)
            remedy = f"did you mean {near[0].replace('_', '-')}?" if near else "see --help=all"
            raise ConfigError(f"--config {name}: {key!r} is no flag of this command; {remedy}")
        if field in values:
            raise ConfigError(f"--config {name}: {key!r} is given twice")
        try:
            values[field] = from_yaml(hints[field], value)
        except ValueError as error:
            raise ConfigError(f"--config {name}: {key}: {error}") from None
    return values
