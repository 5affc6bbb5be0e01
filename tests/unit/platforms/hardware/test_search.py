"""Accelerators, by the files of a machine that has them."""

import pytest

from runtime.platforms.hardware import find_hardware


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def bind(root, device, driver):
    """A device below /sys with a kernel driver, as the kernel links them."""
    folder = root / "sys" / "class" / device / "device"
    target = root / "sys" / "bus" / "pci" / "drivers" / driver
    target.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True)
    (folder / "driver").symlink_to(target)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("proc/driver/nvidia/version", "nvidia-gpu"),
        ("dev/nvidia0", "nvidia-gpu"),
        ("dev/kfd", "amd-gpu"),
        ("dev/davinci3", "ascend-npu"),
        ("dev/neuron0", "neuron"),
    ],
)
def test_a_device_file_is_enough(tmp_path, path, kind):
    touch(tmp_path / path)
    (found,) = find_hardware(tmp_path)
    assert (found.kind, found.evidence) == (kind, f"/{path}")


@pytest.mark.parametrize(
    ("device", "driver", "kind"),
    [
        ("drm/card1", "amdgpu", "amd-gpu"),
        ("drm/card0", "nvidia", "nvidia-gpu"),
        ("accel/accel0", "habanalabs", "gaudi"),
    ],
)
def test_a_kernel_driver_is_enough(tmp_path, device, driver, kind):
    bind(tmp_path, device, driver)
    (found,) = find_hardware(tmp_path)
    assert (found.kind, found.evidence) == (kind, f"/sys/class/{device}/device")


def test_several_devices_of_one_kind_are_named_once_and_each_kind_once(tmp_path):
    for path in ("dev/nvidia0", "dev/nvidia1", "dev/kfd"):
        touch(tmp_path / path)
    bind(tmp_path, "drm/card0", "nvidia")
    assert [found.kind for found in find_hardware(tmp_path)] == ["nvidia-gpu", "amd-gpu"]


def test_other_files_and_drivers_are_nothing(tmp_path):
    for path in ("dev/nvidiactl", "dev/nvidia-uvm", "dev/accel/accel0"):
        touch(tmp_path / path)
    bind(tmp_path, "drm/card0", "virtio-pci")
    bind(tmp_path, "accel/accel0", "intel_vpu")
    (tmp_path / "sys/class/drm/card1/device").mkdir(parents=True)
    assert find_hardware(tmp_path) == []


def test_the_line_names_the_device_the_evidence_and_the_extra(tmp_path):
    touch(tmp_path / "dev" / "nvidia0")
    (found,) = find_hardware(tmp_path)
    assert str(found) == (
        "found an NVIDIA GPU (/dev/nvidia0) that no installed platform serves; "
        "install runtime[cuda]"
    )
