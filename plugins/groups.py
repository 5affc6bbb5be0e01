"""The entry point groups, and the hook that a plain callable in each stands for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PLATFORM_GROUP = "runtime.platform_plugins"
GENERAL_GROUP = "runtime.general_plugins"
HARDWARE_GROUP = "runtime.hardware_plugins"
SERVER_GROUP = "runtime.server_plugins"

HOOK_OF_GROUP: Mapping[str, str] = MappingProxyType(
    {
        PLATFORM_GROUP: "runtime_platform",
        GENERAL_GROUP: "runtime_register",
        HARDWARE_GROUP: "runtime_hardware",
        SERVER_GROUP: "runtime_server",
    }
)
"""In the order in which plugins are listed."""
