"""The null platform: the platform contract on a device without hardware.

It computes, on host memory, and is as strict as any device could be: what a core may not do on
some device, it may not do here. See ``docs/design/null-platform.md``.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from runtime.core.platform.interface import (
    DeviceRole,
    GraphRole,
    MemoryRole,
    Platform,
    PlatformCapabilities,
    ProbeResult,
)

if TYPE_CHECKING:
    from runtime.platforms.null.device import NullCounters


class NullPlatform(Platform):
    """The reference device. Its state is the process's: see ``platforms/null/device.py``."""

    name = "null"
    device_type = "null"

    @classmethod
    def probe(cls) -> ProbeResult:
        """Runs anywhere, but only when asked for by name."""
        return ProbeResult(0, "a reference device without hardware, for tests")

    @cached_property
    def capabilities(self) -> PlatformCapabilities:
        """Float types and graph capture; the rest is what every device can."""
        return PlatformCapabilities(
            dtypes=("float32", "bfloat16", "float16"),
            graph_capture=True,
        )

    @cached_property
    def devices(self) -> DeviceRole:
        """The one device.

        The first use registers it with torch; raises PlatformError where that is impossible.
        """
        from runtime.platforms.null.roles import NullDevices

        return NullDevices()

    @cached_property
    def memory(self) -> MemoryRole:
        """Its memory, of ``VLLM_NULL_MEMORY`` GiB."""
        from runtime.platforms.null.roles import NullMemory

        return NullMemory()

    @cached_property
    def graphs(self) -> GraphRole:
        """Recording and replay of ops."""
        from runtime.platforms.null.graph import NullGraphs

        return NullGraphs()

    @property
    def counters(self) -> NullCounters:
        """What was asked of the device in this process so far; subtract two to see a step's."""
        from runtime.platforms.null.device import null_device

        return null_device().snapshot()
