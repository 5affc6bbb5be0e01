"""Compiled kernels for the CPU platform of ``runtime``: the torch operators of its namespace."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from functools import cache

ISA_VARIABLE = "VLLM_CPU_ISA"
"""Environment variable: use this instruction set's kernels instead of the widest."""


@dataclass(frozen=True)
class KernelInfo:
    """What was loaded."""

    isa: str
    """Instruction set whose kernels run."""
    available_isas: tuple[str, ...]
    """Those that this machine can run, narrowest first."""
    library: str
    """Path of the library."""


@cache
def _load_library() -> str:
    import torch

    spec = importlib.util.find_spec(f"{__name__}._C")
    if spec is None or spec.origin is None:
        raise ImportError(f"{__name__} has no compiled library: install it again")
    torch.ops.load_library(spec.origin)
    return spec.origin


def load(threads: int | None = None) -> KernelInfo:
    """Load the library once; then ``torch.ops.runtime_kernels_cpu`` has the operators.

    Args:
        threads: how many threads compute, the calling one among them; None leaves it as it is
            (one at first). It holds for the whole process.

    Raises:
        ImportError: the library is missing.
        OSError: it does not load on this torch.
        ValueError: ``VLLM_CPU_ISA`` names an instruction set that cannot be used here.
    """
    import torch

    library = _load_library()
    ops = torch.ops.runtime_kernels_cpu
    available = tuple(ops.available_isas().split())
    wanted = os.environ.get(ISA_VARIABLE, "").strip() or available[-1]
    if wanted not in available:
        raise ValueError(
            f"{ISA_VARIABLE}={wanted!r} cannot be used here; possible: {', '.join(available)}"
        )
    ops.use_isa(wanted)
    if threads is not None:
        ops.use_threads(threads)
    return KernelInfo(ops.isa(), available, library)
