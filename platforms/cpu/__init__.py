"""The CPU platform (x86-64 and ARM64)."""


def register() -> str:
    """Entry point of group ``runtime.platform_plugins``: the platform class's qualified name."""
    return "runtime.platforms.cpu.platform:CpuPlatform"
