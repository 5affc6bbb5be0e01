"""Limits that the process's control groups set, of version 2 and 1.

Every function takes the file system's root, so that a test can lay out another machine's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path("/")

_UNLIMITED = 1 << 60
"""Version 1 writes "no limit" as the largest page-aligned number; no machine has this much."""


def memory_limit(root: Path = ROOT) -> int | None:
    """Bytes that the process may use, or None without a limit."""
    limits = [limit for limit, _ in _memory(root)]
    return min(limits, default=None)


def memory_left(root: Path = ROOT) -> int | None:
    """Bytes left under the tightest limit, or None without a limit.

    Cached files that the kernel would drop first do not count as used.
    """
    return min((max(0, limit - used) for limit, used in _memory(root)), default=None)


def cpu_quota(root: Path = ROOT) -> float | None:
    """Processors' worth of time that the process gets, or None without a limit."""
    quotas = []
    for folder in _groups(root, ""):
        words = _read(folder / "cpu.max").split()
        if len(words) == 2 and words[0] != "max":
            quotas.append(int(words[0]) / int(words[1]))
    for folder in _groups(root, "cpu"):
        quota, period = (_number(folder / f"cpu.cfs_{what}_us") for what in ("quota", "period"))
        if quota is not None and period and quota > 0:
            quotas.append(quota / period)
    return min(quotas, default=None)


def _memory(root: Path) -> Iterator[tuple[int, int]]:
    """(limit, used) of each group that has a limit."""
    for controller, limit_name, used_name, cached_name in (
        ("", "memory.max", "memory.current", "inactive_file"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        for folder in _groups(root, controller):
            limit = _number(folder / limit_name)
            if limit is None or limit >= _UNLIMITED:
                continue
            statistics = dict(line.split() for line in _read(folder / "memory.stat").splitlines())
            used = (_number(folder / used_name) or 0) - int(statistics.get(cached_name, 0))
            yield limit, max(0, used)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The process's group of a controller and its ancestors; ``""`` is the version 2 tree.

    Inside a container the path that the kernel reports may not be visible; the mount itself is
    the container's group then.
    """
    base = root / "sys/fs/cgroup"
    mount = base / controller if controller else base
    if not controller and not (base / "cgroup.controllers").exists():
        mount = base / "unified"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if controller not in names.split(","):
            continue
        inside = PurePosixPath(path.lstrip("/"))
        if ".." not in inside.parts:
            yield from (mount / part for part in [inside, *inside.parents] if part.name)
        yield mount


def _number(path: Path) -> int | None:
    """The file's number; None where there is no file, or the word ``max``."""
    text = _read(path).strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _read(path: Path) -> str:
    """The file's text; empty where it does not exist or may not be read: then it limits nothing."""
    try:
        return path.read_text()
    except OSError:
        return ""
