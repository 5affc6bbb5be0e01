"""What needs a GPU: skipped as a whole where the platform says that it cannot run."""

import pytest

from runtime.platforms.cuda.platform import CudaPlatform


def pytest_collection_modifyitems(items):
    probe = CudaPlatform.probe()
    if not probe.available:
        skip = pytest.mark.skip(reason=f"cuda: {probe.reason}")
        for item in items:
            if "device/cuda" in item.path.as_posix():
                item.add_marker(skip)
