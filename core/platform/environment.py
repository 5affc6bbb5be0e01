"""Reading the environment variables that platforms share the form of."""

from __future__ import annotations

import math
from collections.abc import Mapping

from runtime.core.errors import ConfigError


def gib_from_environment(environ: Mapping[str, str], name: str) -> int | None:
    """Bytes that a variable gives in GiB (fractions allowed); None where it is unset or blank.

    Raises ConfigError where the value is not a positive, finite number.
    """
    text = environ.get(name, "").strip()
    if not text:
        return None
    try:
        gib = float(text)
    except ValueError:
        gib = math.nan
    if not (math.isfinite(gib) and gib > 0):
        raise ConfigError(f"{name}={text!r} is not a size: give a positive number of GiB, e.g. 4")
    return int(gib * 2**30)
