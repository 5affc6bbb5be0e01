"""The compiled kernels: whether they are there, and why not."""

from __future__ import annotations

import importlib
import logging
from functools import cache
from typing import Any

PACKAGE = "runtime_kernels_cuda"
"""Import name of the distribution ``runtime-kernels-cuda``; also its operators' namespace."""

INSTALL = "pip install ./kernels_cuda"

logger = logging.getLogger(__name__)


@cache
def why_missing() -> str | None:
    """None where the kernels are loaded, else why they are not; tries once and tells the log."""
    try:
        package = importlib.import_module(PACKAGE)
    except ModuleNotFoundError as error:
        if error.name != PACKAGE:
            raise
        reason = "runtime-kernels-cuda is not installed"
        logger.info("%s: Triton's kernels serve, which are slower; %s", reason, INSTALL)
        return reason
    try:
        package.load()
    except (ImportError, OSError) as error:
        reason = f"runtime-kernels-cuda does not load: {error}"
        logger.warning("%s; Triton's kernels serve, which are slower; %s", reason, INSTALL)
        return reason
    return None


def operators() -> Any:
    """Namespace of the kernels' operators; only where :func:`why_missing` is None."""
    import torch

    return getattr(torch.ops, PACKAGE)
