"""The operators on fake tensors: nearly all write to tensors that they are given."""

from __future__ import annotations

from typing import Any

import torch

NAMESPACE = "runtime_kernels_cuda"


def register() -> None:
    """Tell torch what each operator of the namespace returns; once, after loading."""
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith(f"{NAMESPACE}::") and not schema.returns:
            torch.library.register_fake(schema.name, _nothing)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Operators that write to their arguments return nothing."""
