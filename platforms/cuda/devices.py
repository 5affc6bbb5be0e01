"""The device role of the CUDA platform."""

from __future__ import annotations

import torch


def refuse_in_capture(what: str) -> None:
    """Raise RuntimeError while the current stream captures a graph, in which that cannot be.

    The driver would refuse as well, but the capture could then not be ended in order.
    """
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(f"{what} cannot be captured in a graph")


class CudaDevices:
    """The visible GPUs; see :class:`runtime.core.platform.interface.DeviceRole`."""

    def count(self) -> int:
        """Those that ``CUDA_VISIBLE_DEVICES`` leaves."""
        return torch.cuda.device_count()

    def device(self, index: int = 0) -> torch.device:
        """``cuda:<index>``."""
        return torch.device("cuda", index)

    def name(self, index: int = 0) -> str:
        """The driver's name of it."""
        return torch.cuda.get_device_name(index)

    def activate(self, index: int = 0) -> None:
        """Make it the current device of this thread."""
        torch.cuda.set_device(index)

    def synchronize(self, index: int = 0) -> None:
        """Wait for all its streams. RuntimeError in a capture."""
        refuse_in_capture("waiting for the device")
        torch.cuda.synchronize(index)

    def seed(self, seed: int) -> None:
        """Seed the default generator of every device."""
        torch.cuda.manual_seed_all(seed)

    def generator(self, index: int = 0) -> torch.Generator:
        """A new generator on the device."""
        return torch.Generator(self.device(index))
