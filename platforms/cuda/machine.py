"""What GPUs are here and whether torch can use them, without initialising CUDA or importing torch.

GPUs are read through NVML, which needs the driver but makes no context on a device.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEAST_CAPABILITY = (8, 0)
"""Ampere: the first with bfloat16 arithmetic, which the kernels are written for."""

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Gpu:
    """One device, as NVML shows it."""

    name: str
    uuid: str
    capability: tuple[int, int]
    memory: int
    """Bytes in all."""


@dataclass(frozen=True)
class Machine:
    """The driver and its devices."""

    driver: str
    cuda: tuple[int, int]
    """The newest CUDA release that the driver runs."""
    gpus: tuple[Gpu, ...]


class NoMachineError(Exception):
    """There is nothing to run on; the message says why."""


def read_machine(nvml: Any = None) -> Machine:
    """Ask NVML; ``nvml`` stands in for the module ``pynvml``.

    Raises:
        NoMachineError: nvidia-ml-py is missing, or there is no driver.
    """
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            raise NoMachineError(
                "nvidia-ml-py is not installed (pip install 'runtime[cuda]')"
            ) from None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise NoMachineError(f"no NVIDIA driver: {error}") from None
    try:
        version = nvml.nvmlSystemGetCudaDriverVersion()
        return Machine(
            driver=_text(nvml.nvmlSystemGetDriverVersion()),
            cuda=(version // 1000, version % 1000 // 10),
            gpus=tuple(_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount())),
        )
    except nvml.NVMLError as error:
        raise NoMachineError(f"the NVIDIA driver does not answer: {error}") from None
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Gpu(
        name=_text(nvml.nvmlDeviceGetName(handle)),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        capability=(major, minor),
        memory=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def torch_cuda_version(folder: Path | None = None) -> str | None:
    """The CUDA release that the installed torch is built for; None where it is for none.

    Read from torch's ``version.py`` below ``folder``, by default where torch would be imported
    from.
    """
    if folder is None:
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.origin is None:
            return None
        folder = Path(spec.origin).parent
    try:
        tree = ast.parse((folder / "version.py").read_text("utf-8"))
    except (OSError, SyntaxError):
        return None
    for node in tree.body:
        target: ast.expr | None = None
        if isinstance(node, ast.AnnAssign):
            target = node.target
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        if isinstance(target, ast.Name) and target.id == "cuda":
            value = getattr(node, "value", None)
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                return value.value
    return None


def visible_gpus(gpus: Sequence[Gpu], environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """The devices that ``CUDA_VISIBLE_DEVICES`` leaves, in its order.

    As the driver has it, the list ends at the first entry that names no device.
    """
    asked = environ.get(VISIBLE)
    if asked is None:
        return tuple(gpus)
    found: list[Gpu] = []
    for word in (part.strip() for part in asked.split(",")):
        if word.isdecimal():
            matching = gpus[int(word) : int(word) + 1]
        else:
            matching = [gpu for gpu in gpus if word and gpu.uuid.startswith(word)][:1]
        if not matching or matching[0] in found:
            break
        found += matching
    return tuple(found)


def why_not(machine: Machine, cuda: str | None, environ: Mapping[str, str]) -> str | None:
    """Why torch, built for that CUDA release, cannot use the machine; None where it can."""
    if not machine.gpus:
        return f"driver {machine.driver} shows no GPU"
    if cuda is None:
        return "the installed torch is built without CUDA"
    gpus = visible_gpus(machine.gpus, environ)
    if not gpus:
        return f"{VISIBLE}={environ.get(VISIBLE, '')!r} hides all of {len(machine.gpus)} GPU(s)"
    # Within a major release, any driver runs any toolkit's programs (minor version compatibility).
    if machine.cuda[0] < int(cuda.split(".")[0]):
        newest = ".".join(map(str, machine.cuda))
        return f"driver {machine.driver} runs CUDA up to {newest}, torch is built for {cuda}"
    weakest = min(gpus, key=lambda gpu: gpu.capability)
    if weakest.capability < LEAST_CAPABILITY:
        have, need = (".".join(map(str, c)) for c in (weakest.capability, LEAST_CAPABILITY))
        return f"{weakest.name} has compute capability {have}, at least {need} is needed"
    return None
