"""A stand-in for NVML and its devices."""

from types import SimpleNamespace

import pytest


class FakeNvml:
    """The part of ``pynvml`` that the platform asks."""

    class NVMLError(Exception):
        """As the module has it."""

    def __init__(self, *gpus, cuda=13000, driver="580.1", broken=None):
        self.gpus, self.cuda, self.driver, self.broken = gpus, cuda, driver, broken
        self.open = 0

    def nvmlInit(self):  # noqa: N802
        if self.broken:
            raise self.NVMLError(self.broken)
        self.open += 1

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1

    def nvmlSystemGetCudaDriverVersion(self):  # noqa: N802
        return self.cuda

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        return self.driver.encode()

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return index

    def nvmlDeviceGetCudaComputeCapability(self, handle):  # noqa: N802
        return self.gpus[handle]

    def nvmlDeviceGetName(self, handle):  # noqa: N802
        return f"GPU {handle}"

    def nvmlDeviceGetUUID(self, handle):  # noqa: N802
        return f"GPU-{handle}abc"

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        return SimpleNamespace(total=80 << 30)


@pytest.fixture
def nvml():
    """Make one: ``nvml((9, 0), (8, 0), cuda=12040)``, a compute capability a device."""
    return FakeNvml
