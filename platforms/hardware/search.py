"""Looking for accelerators by the files that the kernel shows, without opening a device.

Sources: the Linux kernel's documentation of ``/sys/class/drm`` and of ``/sys/class/accel``
(https://docs.kernel.org/accel/introduction.html), and the vendors' device nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runtime.plugins.hardware import Hardware

INSTALL = "install a package that brings a platform for it"


@dataclass(frozen=True)
class Signs:
    """How one kind of hardware shows itself."""

    kind: str
    name: str
    platform: str
    remedy: str
    paths: tuple[str, ...] = ()
    """Patterns of paths below the root, any of which is enough."""
    driver: str | None = None
    """Kernel driver of such a device, below ``/sys/class/drm`` or ``/sys/class/accel``."""


KINDS = (
    Signs(
        "nvidia-gpu",
        "an NVIDIA GPU",
        "cuda",
        "install runtime[cuda]",
        ("proc/driver/nvidia/version", "dev/nvidia[0-9]*"),
        "nvidia",
    ),
    Signs("amd-gpu", "an AMD GPU", "rocm", "install runtime[rocm]", ("dev/kfd",), "amdgpu"),
    Signs("gaudi", "an Intel Gaudi accelerator", "hpu", INSTALL, driver="habanalabs"),
    Signs("ascend-npu", "an Ascend NPU", "npu", INSTALL, ("dev/davinci[0-9]*",)),
    Signs("neuron", "an AWS Neuron device", "neuron", INSTALL, ("dev/neuron[0-9]*",)),
)
"""Graphics of a processor are left out: most machines have them, and nobody misses them."""


def find_hardware(root: Path = Path("/")) -> list[Hardware]:
    """Entry point of group ``runtime.hardware_plugins``: each kind of accelerator once."""
    found = []
    for signs in KINDS:
        evidence = next(_evidence(signs, root), None)
        if evidence is not None:
            shown = f"/{evidence.relative_to(root).as_posix()}"
            found.append(
                Hardware(signs.kind, signs.name, shown, signs.platform, signs.remedy),
            )
    return found


def _evidence(signs: Signs, root: Path) -> Iterator[Path]:
    """Paths that show this kind of hardware."""
    for pattern in signs.paths:
        yield from sorted(root.glob(pattern))
    for pattern in ("sys/class/drm/card[0-9]*/device", "sys/class/accel/accel[0-9]*/device"):
        for device in sorted(root.glob(pattern)):
            if signs.driver is not None and _driver(device) == signs.driver:
                yield device


def _driver(device: Path) -> str | None:
    """The kernel driver that is bound to a device, if any is."""
    try:
        return (device / "driver").resolve(strict=True).name
    except OSError:
        return None
