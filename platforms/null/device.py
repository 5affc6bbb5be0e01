"""The null device itself: a memory of fixed size, and counters of what is asked of it.

There is one null device in a process, as there is one driver of a real one, and torch knows one
backend of that name. So its state is the process's and not a platform object's: several engines
on it share its memory and its counters.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch

from runtime.core.platform.environment import gib_from_environment

if TYPE_CHECKING:
    from runtime.platforms.null.graph import Recording

MEMORY_VARIABLE = "VLLM_NULL_MEMORY"
"""Environment variable: size of the device's memory in GiB."""

DEFAULT_MEMORY = 4 << 30


@dataclass(frozen=True)
class NullCounters:
    """What was asked of the device since the process began; subtract two to see a step's."""

    allocations: int = 0
    frees: int = 0
    copies_to_device: int = 0
    copies_to_host: int = 0
    """Each also waits for the device; those waits are not in :attr:`synchronizations`."""
    bytes_to_device: int = 0
    bytes_to_host: int = 0
    synchronizations: int = 0
    """Explicit ones, and ops whose result's value or shape the host must wait for."""
    captures: int = 0
    replays: int = 0

    def __sub__(self, earlier: NullCounters) -> NullCounters:
        """What was asked between two snapshots."""
        return NullCounters(
            *(getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self))
        )


class Block:
    """An allocation. All tensors that view it share this object, and it dies with the last."""

    __slots__ = ("__weakref__", "_device", "nbytes", "storage")

    def __init__(self, device: NullDevice, storage: torch.UntypedStorage, nbytes: int) -> None:
        # Holding the storage keeps its address from being reused while the device knows it.
        self._device = device
        self.storage = storage
        self.nbytes = nbytes

    def __del__(self) -> None:
        """Give the bytes back to the device."""
        self._device.release(self.storage._cdata, self.nbytes)


class _Local(threading.local):
    """What belongs to one thread."""

    recording: Recording | None = None


class NullDevice:
    """Memory and counters. Safe to use from several threads."""

    def __init__(self, total: int) -> None:
        self.total = total
        """Bytes of memory."""
        self.used = 0
        """Bytes allocated now."""
        self.peak = 0
        """Most bytes allocated at once since it was last set to :attr:`used`."""
        self.local = _Local()
        self._counts = dict.fromkeys((f.name for f in fields(NullCounters)), 0)
        self._blocks: dict[int, weakref.ref[Block]] = {}
        # Re-entrant: the garbage collector may release a block while this thread allocates.
        self._lock = threading.RLock()

    def snapshot(self) -> NullCounters:
        """The counters now."""
        with self._lock:
            return NullCounters(**self._counts)

    def count(self, counter: str, added: int = 1) -> None:
        """Add to a counter of :class:`NullCounters`."""
        with self._lock:
            self._counts[counter] += added

    def reserve(self, nbytes: int) -> None:
        """Raise torch.OutOfMemoryError where that many bytes are not free."""
        free = self.total - self.used
        if nbytes > free:
            raise torch.OutOfMemoryError(
                f"null device out of memory: {nbytes} bytes wanted, {free} of {self.total} free"
            )

    def block(self, storage: torch.UntypedStorage) -> Block:
        """The allocation that a host storage stands for: a new one if the storage is new.

        Raises torch.OutOfMemoryError where the device has no room for a new one.
        """
        address = storage._cdata
        with self._lock:
            known = self._blocks.get(address)
            block = known() if known is not None else None
            if block is None:
                nbytes = storage.nbytes()
                self.reserve(nbytes)
                block = Block(self, storage, nbytes)
                self._blocks[address] = weakref.ref(block)
                self._take(nbytes)
                self._counts["allocations"] += nbytes > 0
            return block

    def resized(self, block: Block) -> None:
        """Account for an op that made a block's storage larger.

        Raises torch.OutOfMemoryError where the device has no room for that.
        """
        with self._lock:
            grown = block.storage.nbytes() - block.nbytes
            self.reserve(grown)
            self._counts["allocations"] += block.nbytes == 0 and grown > 0
            block.nbytes += grown
            self._take(grown)

    def _take(self, nbytes: int) -> None:
        self.used += nbytes
        self.peak = max(self.peak, self.used)

    def release(self, address: int, nbytes: int) -> None:
        """Take back a dead block."""
        with self._lock:
            known = self._blocks.get(address)
            if known is not None and known() is None:
                del self._blocks[address]
            self.used -= nbytes
            self._counts["frees"] += nbytes > 0

    def reset_peak(self) -> None:
        """Start a new peak measurement."""
        with self._lock:
            self.peak = self.used

    def wait(self, what: str) -> None:
        """Count a synchronisation; ``what`` names what makes the host wait.

        Raises RuntimeError inside a graph capture, where nothing may wait.
        """
        self.refuse_in_capture(what, "waits for the device")
        self.count("synchronizations")

    def refuse_in_capture(self, what: str, why: str) -> None:
        """Raise RuntimeError if this thread is capturing a graph."""
        if self.local.recording is not None:
            raise RuntimeError(f"{what} {why}, which a graph capture on the null device refuses")


@functools.cache
def null_device() -> NullDevice:
    """The process's null device. Its memory size is read from the environment at first use.

    Raises ConfigError where ``VLLM_NULL_MEMORY`` is not a positive number.
    """
    return NullDevice(gib_from_environment(os.environ, MEMORY_VARIABLE) or DEFAULT_MEMORY)
