"""An example of an out-of-tree platform: a simulated accelerator over host memory."""

runtime_plugin_api = (1, 0)


def register() -> str:
    """Entry point: the qualified name of the platform class. Nothing heavy is imported for it."""
    return "slate_platform.platform:SlatePlatform"
