"""Compiled kernels for the CUDA platform of ``runtime``: the torch operators of its namespace."""

from __future__ import annotations

import importlib.util
from functools import cache


@cache
def load() -> str:
    """Load the library once; then ``torch.ops.runtime_kernels_cuda`` has the operators.

    Returns:
        The library's path.

    Raises:
        ImportError: the library is missing.
        OSError: it does not load on this torch.
    """
    import torch

    from runtime_kernels_cuda import _fake

    spec = importlib.util.find_spec(f"{__name__}._C")
    if spec is None or spec.origin is None:
        raise ImportError(f"{__name__} has no compiled library: install it again")
    torch.ops.load_library(spec.origin)
    _fake.register()
    return spec.origin
