"""The null platform: the platform contract on a device without hardware.

It computes, on host memory, and is as strict as any device could be: what a core may not do on
some device, it may not do here. See ``docs/design/null-platform.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from runtime.core.platform.interface import (
    DeviceRole,
    GraphRole,
    MemoryRole,
    Platform,
    PlatformCapabilities,
    PlatformPolicy,
    ProbeResult,
)

if TYPE_CHECKING:
    from runtime.platforms.null.device import NullCounters


class NullPolicy(PlatformPolicy):
    """The core's choices, but for attention."""

    def attention_backends(self) -> Sequence[str]:
        """The op itself: its shapes are fixed, so a step with it can be captured."""
        return ("runtime.core.attention.reference:ReferenceBackend",)


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
            distributed=True,
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

    @cached_property
    def policy(self) -> PlatformPolicy:
        """Attention that can be captured, before speed."""
        return NullPolicy()

    @property
    def communicator_class(self) -> str:
        """By way of the host: torch.distributed knows no null tensors."""
        return "runtime.core.distributed.communicator:HostCommunicator"

    @property
    def environment(self) -> Mapping[str, str]:
        """Its one variable."""
        return {"VLLM_NULL_MEMORY": "GiB of memory that the device has; the default is 4"}

    @property
    def counters(self) -> NullCounters:
        """What was asked of the device in this process so far; subtract two to see a step's."""
        from runtime.platforms.null.device import null_device

        return null_device().snapshot()
