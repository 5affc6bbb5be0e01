"""Queued work on CUDA devices: copies to the host that are not waited for at once."""

from __future__ import annotations

import torch

from runtime.platforms.cuda.devices import refuse_in_capture


class CudaHostCopy:
    """A copy into page-locked memory, and the event behind it."""

    def __init__(self, target: torch.Tensor, done: torch.cuda.Event) -> None:
        self._target = target
        self._done = done

    def wait(self) -> torch.Tensor:
        """The host tensor."""
        self._done.synchronize()
        return self._target


class CudaQueue:
    """The current stream; see :class:`runtime.core.platform.interface.QueueRole`."""

    def start_copy_to_host(self, source: torch.Tensor) -> CudaHostCopy:
        """Queue a copy. RuntimeError in a capture."""
        refuse_in_capture("a copy to the host")
        target = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
        target.copy_(source, non_blocking=True)
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record()
        return CudaHostCopy(target, done)
