"""The compiled kernels: whether they are there, and why not."""

from __future__ import annotations

import importlib
import logging
from functools import cache
from typing import Any

from runtime.core.errors import ConfigError

PACKAGE = "runtime_kernels_cpu"
"""Import name of the distribution ``runtime-kernels-cpu``; also its operators' namespace."""

INSTALL = "pip install ./kernels_cpu (or make kernels)"

logger = logging.getLogger(__name__)


@cache
def why_missing() -> str | None:
    """None where the kernels are loaded, else why they are not; tries once and tells the log.

    Raises:
        ConfigError: ``VLLM_CPU_ISA`` names what this processor does not have.
    """
    try:
        package = importlib.import_module(PACKAGE)
    except ModuleNotFoundError as error:
        if error.name != PACKAGE:
            raise
        reason = "runtime-kernels-cpu is not installed"
        logger.info("%s: ops are torch's own, which is slower; %s", reason, INSTALL)
        return reason
    try:
        info = package.load()
    except ValueError as error:
        raise ConfigError(str(error)) from error
    except (ImportError, OSError) as error:
        reason = f"runtime-kernels-cpu does not load: {error}"
        logger.warning("%s; ops are torch's own, which is slower; %s", reason, INSTALL)
        return reason
    logger.info("kernels for %s (of %s)", info.isa, ", ".join(info.available_isas))
    return None


def operators() -> Any:
    """Namespace of the kernels' operators; only where :func:`why_missing` is None."""
    import torch

    return getattr(torch.ops, PACKAGE)


def use_threads(count: int) -> None:
    """Let the kernels compute with so many threads, where they are loaded."""
    if why_missing() is None:
        operators().use_threads(count)
