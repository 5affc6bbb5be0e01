"""What needs a GPU: skipped as a whole where the platform says that it cannot run."""

import pytest
import torch

from runtime.platforms.cuda.kernels import operators, why_missing
from runtime.platforms.cuda.platform import CudaPlatform


def pytest_collection_modifyitems(items):
    probe = CudaPlatform.probe()
    if not probe.available:
        skip = pytest.mark.skip(reason=f"cuda: {probe.reason}")
        for item in items:
            if "device/cuda" in item.path.as_posix():
                item.add_marker(skip)


@pytest.fixture(scope="session")
def kernels():
    """The compiled operators."""
    why = why_missing()
    if why is not None:
        pytest.skip(why)
    return operators()


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(torch.seed() % 2**63)
