"""The null platform: a reference device without hardware that counts what is asked of it."""


def register() -> str:
    """Entry point of group ``runtime.platform_plugins``: the platform class's qualified name."""
    return "runtime.platforms.null.platform:NullPlatform"
