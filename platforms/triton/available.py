"""Whether Triton is there."""

from __future__ import annotations

import importlib.util
import logging
from functools import cache

logger = logging.getLogger(__name__)


@cache
def why_missing() -> str | None:
    """None where Triton is installed, else what to do; told to the log once."""
    if importlib.util.find_spec("triton") is not None:
        return None
    reason = "Triton is not installed (pip install triton)"
    logger.warning("%s: ops and attention are torch's own, which is much slower", reason)
    return reason
