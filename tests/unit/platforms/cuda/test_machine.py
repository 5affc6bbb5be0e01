"""What the probe reads, and each reason why torch could not use it."""

import pytest

from runtime.platforms.cuda.machine import (
    NoMachineError,
    read_machine,
    torch_cuda_version,
    visible_gpus,
    why_not,
)


def test_a_machine_is_read_and_nvml_is_closed(nvml):
    fake = nvml((9, 0), (8, 6), cuda=12040)
    machine = read_machine(fake)
    assert (machine.driver, machine.cuda) == ("580.1", (12, 4))
    assert [gpu.capability for gpu in machine.gpus] == [(9, 0), (8, 6)]
    assert machine.gpus[1].memory == 80 << 30
    assert fake.open == 0


def test_no_driver(nvml):
    with pytest.raises(NoMachineError, match="no NVIDIA driver: Library Not Found"):
        read_machine(nvml(broken="Library Not Found"))


def test_no_nvml(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    with pytest.raises(NoMachineError, match=r"nvidia-ml-py is not installed.*runtime\[cuda\]"):
        read_machine()


@pytest.mark.parametrize(
    ("gpus", "cuda", "torch", "visible", "reason"),
    [
        ([(9, 0)], 13000, "13.0", None, None),
        ([(9, 0)], 13000, "12.8", None, None),
        ([(9, 0)], 13000, "13.1", None, None),
        ([], 13000, "13.0", None, "driver 580.1 shows no GPU"),
        ([(9, 0)], 13000, None, None, "the installed torch is built without CUDA"),
        ([(9, 0)], 12080, "13.0", None, "driver 580.1 runs CUDA up to 12.8, torch is built for 13"),
        ([(7, 5)], 13000, "13.0", None, "GPU 0 has compute capability 7.5, at least 8.0 is needed"),
        ([(7, 5), (8, 0)], 13000, "13.0", "1", None),
        ([(9, 0)], 13000, "13.0", "", "CUDA_VISIBLE_DEVICES='' hides all of 1 GPU(s)"),
        ([(9, 0)], 13000, "13.0", "-1", "CUDA_VISIBLE_DEVICES='-1' hides all"),
    ],
)
def test_reasons(nvml, gpus, cuda, torch, visible, reason):
    machine = read_machine(nvml(*gpus, cuda=cuda))
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    found = why_not(machine, torch, environ)
    assert found is None if reason is None else reason in found


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (None, ["GPU 0", "GPU 1", "GPU 2"]),
        ("2,0", ["GPU 2", "GPU 0"]),
        ("GPU-1", ["GPU 1"]),
        ("1,7,0", ["GPU 1"]),
        ("1,1", ["GPU 1"]),
        ("", []),
    ],
)
def test_visible_devices(nvml, asked, names):
    gpus = read_machine(nvml((9, 0), (9, 0), (9, 0))).gpus
    environ = {} if asked is None else {"CUDA_VISIBLE_DEVICES": asked}
    assert [gpu.name for gpu in visible_gpus(gpus, environ)] == names


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("cuda: str | None = '13.0'\n", "13.0"),
        ("from typing import Optional\ncuda: Optional[str] = None\n", None),
        ("cuda = '12.8'\nhip = None\n", "12.8"),
        ("hip = '6.4'\n", None),
        ("cuda = (\n", None),
    ],
)
def test_the_release_that_torch_is_built_for(tmp_path, text, version):
    (tmp_path / "version.py").write_text(text)
    assert torch_cuda_version(tmp_path) == version
    assert torch_cuda_version(tmp_path / "nowhere") is None
