"""Registration of the null device with torch, as the ``PrivateUse1`` backend."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence

import torch
from torch.utils import backend_registration

from runtime.core.errors import PlatformError
from runtime.platforms.null.device import null_device
from runtime.platforms.null.tensor import DEVICE_TYPE, check_index, wrap

_UNNAMED = "privateuseone"
"""What torch calls the backend while nobody has taken it."""

_LOCK = threading.Lock()


def ensure_registered() -> None:
    """Make ``torch.device("null")`` known to this process. Later calls do nothing.

    Raises PlatformError where another package has taken torch's only slot for such a backend.
    """
    with _LOCK:
        _register()


class _Backend:
    """What torch expects of a backend's module ``torch.null``."""

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """Nothing to seed: random ops draw from the host's generator."""

    def synchronize(self, device: object = None) -> None:
        null_device().wait("torch.null.synchronize")


@functools.cache
def _register() -> torch.library.Library:
    """Register once; the cache keeps the library, whose end would undo the registration."""
    taken = torch._C._get_privateuse1_backend_name()
    if taken != _UNNAMED:
        raise PlatformError(
            f"the null platform cannot run in this process: torch's PrivateUse1 backend is taken by"
            f" {taken!r}; use another process"
        )
    null_device()
    backend_registration._setup_privateuseone_for_python_backend(
        DEVICE_TYPE, backend_module=_Backend()
    )
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    for op, kernel in (
        ("empty.memory_format", _empty),
        ("empty_strided", _empty_strided),
        ("_copy_from", _copy_from),
    ):
        library.impl(op, kernel, "PrivateUse1")  # type: ignore[no-untyped-call]
    return library


def _empty(
    size: Sequence[int],
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    return _allocate(
        functools.partial(
            torch.empty, size, memory_format=memory_format or torch.contiguous_format
        ),
        dtype,
        device,
    )


def _empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    return _allocate(functools.partial(torch.empty_strided, size, stride), dtype, device)


def _allocate(
    make: functools.partial[torch.Tensor], dtype: torch.dtype | None, device: torch.device | None
) -> torch.Tensor:
    if device is not None:
        check_index(device)
    dtype = dtype or torch.get_default_dtype()
    # Sized on the meta device first, so that a refused allocation takes no host memory.
    null_device().reserve(make(dtype=dtype, device="meta").untyped_storage().nbytes())
    return wrap(make(dtype=dtype, device="cpu"), null_device())


def _copy_from(
    source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False
) -> torch.Tensor:
    """Where torch ends up when it makes a device tensor of host values, as torch.tensor does."""
    raise RuntimeError(
        f"a copy from {source.device} to {target.device} is refused;"
        " use the platform's memory.copy_to_device"
    )
