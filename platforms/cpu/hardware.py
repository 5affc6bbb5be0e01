"""What processor this is and which of its cores the process may use. Imports no torch."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from pathlib import Path

from runtime.platforms.cpu.cgroups import ROOT, cpu_quota

_ARCHITECTURES = {"x86_64": "x86-64", "amd64": "x86-64", "aarch64": "ARM64", "arm64": "ARM64"}

# Widest first: the flags that must all be there, and what to call them.
_INSTRUCTION_SETS = {
    "x86-64": (
        ({"amx_bf16"}, "AMX BF16"),
        ({"avx512_bf16"}, "AVX-512 BF16"),
        ({"avx512_vnni"}, "AVX-512 VNNI"),
        ({"avx512f"}, "AVX-512"),
        ({"avx2"}, "AVX2"),
        ({"avx"}, "AVX"),
    ),
    "ARM64": (
        ({"sve", "bf16"}, "SVE BF16"),
        ({"sve"}, "SVE"),
        ({"asimd", "bf16"}, "NEON BF16"),
        ({"asimd"}, "NEON"),
    ),
}


def architecture() -> str | None:
    """``x86-64`` or ``ARM64``; None for any other."""
    return _ARCHITECTURES.get(platform.machine().lower())


def instruction_set(arch: str, root: Path = ROOT) -> str | None:
    """The widest vector instruction set in words; None where the system does not tell."""
    try:
        lines = (root / "proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    flags: set[str] = set()
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            flags.update(value.split())
            break
    return next((name for needed, name in _INSTRUCTION_SETS[arch] if needed <= flags), None)


def usable_cores() -> frozenset[int]:
    """Logical cores in the process's affinity mask."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def online_cores(root: Path = ROOT) -> frozenset[int]:
    """Logical cores that are switched on, in the affinity mask or not."""
    try:
        return parse_cores((root / "sys/devices/system/cpu/online").read_text())
    except OSError:
        return usable_cores()


def physical_cores(cores: Iterable[int], root: Path = ROOT) -> list[int]:
    """The first logical core of each physical one among ``cores``, in order."""
    seen: set[int] = set()
    firsts = []
    for core in sorted(cores):
        if core in seen:
            continue
        firsts.append(core)
        topology = root / f"sys/devices/system/cpu/cpu{core}/topology"
        try:
            seen |= parse_cores((topology / "thread_siblings_list").read_text())
        except OSError:
            seen.add(core)
    return firsts


def worker_threads(root: Path = ROOT) -> int:
    """Threads that suit this process: its physical cores, within its share of time."""
    cores = len(physical_cores(usable_cores(), root))
    quota = cpu_quota(root)
    return max(1, min(cores, int(quota))) if quota is not None else cores


def parse_cores(text: str) -> frozenset[int]:
    """Cores of a list such as ``0-3,8``. Raises ValueError where it is none."""
    cores: set[int] = set()
    for item in text.strip().split(","):
        first, dash, last = item.partition("-")
        start = int(first)
        stop = int(last) if dash else start
        if start < 0 or stop < start:
            raise ValueError(f"{item!r} is not a range of cores")
        cores.update(range(start, stop + 1))
    return frozenset(cores)


def format_cores(cores: Iterable[int]) -> str:
    """The shortest list, the reverse of :func:`parse_cores`."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
