"""The CUDA platform (NVIDIA GPUs)."""


def register() -> str:
    """Entry point of group ``runtime.platform_plugins``: the platform class's qualified name."""
    return "runtime.platforms.cuda.platform:CudaPlatform"
