"""The platform object, as far as no GPU is needed."""

import subprocess
import sys

import pytest

from runtime.platforms.cuda import machine, platform
from runtime.platforms.cuda.platform import CudaPlatform, CudaPolicy


@pytest.fixture
def probe(monkeypatch, nvml):
    """Probe with pretended devices: ``probe((9, 0), torch="13.0")``."""

    def run(*gpus, torch="13.0", **kwargs):
        fake = nvml(*gpus, **kwargs)
        monkeypatch.setattr(platform, "read_machine", lambda: machine.read_machine(fake))
        monkeypatch.setattr(platform, "torch_cuda_version", lambda: torch)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        return CudaPlatform.probe()

    return run


def test_it_is_chosen_where_it_runs(probe):
    found = probe((9, 0), (9, 0))
    assert found.score == 100
    assert found.reason == "2 x GPU 0, 80 GiB, driver 580.1"


def test_it_says_why_it_cannot_run(probe):
    assert probe((9, 0), torch=None).reason == "the installed torch is built without CUDA"
    assert not probe(broken="Driver Not Loaded").available


def test_probing_imports_no_torch():
    code = (
        "import sys\nfrom runtime.platforms.cuda.platform import CudaPlatform\n"
        "CudaPlatform.probe()\nassert 'torch' not in sys.modules and 'triton' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_capture_sizes_are_ascending_and_within_the_limit():
    sizes = CudaPolicy().capture_sizes(300)
    assert sizes[:5] == [1, 2, 4, 8, 16]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == 288
