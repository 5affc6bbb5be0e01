"""Hardware of vendors that have a PyTorch, so that a machine's idle device is named."""

from runtime.platforms.hardware.search import find_hardware

__all__ = ["find_hardware"]
