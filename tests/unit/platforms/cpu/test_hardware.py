"""Reading the processor's abilities and cores."""

from __future__ import annotations

import pytest

from runtime.platforms.cpu import hardware


@pytest.mark.parametrize(
    ("arch", "line", "expected"),
    [
        ("x86-64", "flags\t\t: sse2 avx avx2 avx512f avx512_vnni avx512_bf16", "AVX-512 BF16"),
        ("x86-64", "flags\t\t: avx2 avx512f amx_bf16 avx512_bf16", "AMX BF16"),
        ("x86-64", "flags\t\t: sse2 avx avx2", "AVX2"),
        ("x86-64", "flags\t\t: sse2", None),
        ("ARM64", "Features\t: fp asimd sve bf16", "SVE BF16"),
        ("ARM64", "Features\t: fp asimd bf16", "NEON BF16"),
        ("ARM64", "Features\t: fp asimd", "NEON"),
    ],
)
def test_the_widest_instruction_set(machine, arch, line, expected):
    root = machine({"proc/cpuinfo": f"processor\t: 0\n{line}\nbugs\t: none\n"})
    assert hardware.instruction_set(arch, root) == expected


def test_a_system_that_does_not_tell(tmp_path):
    assert hardware.instruction_set("ARM64", tmp_path) is None


def test_one_logical_core_of_each_physical_one(machine):
    siblings = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    root = machine({siblings.format(core): f"{core % 4},{core % 4 + 4}\n" for core in range(8)})
    assert hardware.physical_cores(range(8), root) == [0, 1, 2, 3]
    assert hardware.physical_cores([1, 4, 5, 7], root) == [1, 4, 7]


def test_threads_stay_within_the_quota(machine, monkeypatch):
    monkeypatch.setattr(hardware, "usable_cores", lambda: frozenset(range(6)))
    root = machine({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cgroup.controllers": "cpu\n"})
    assert hardware.worker_threads(root) == 6
    for quota, threads in (("250000", 2), ("50000", 1), ("900000", 6)):
        machine({"sys/fs/cgroup/cpu.max": f"{quota} 100000\n"})
        assert hardware.worker_threads(root) == threads


@pytest.mark.parametrize(
    ("text", "cores"), [("0", {0}), ("0-3,8", {0, 1, 2, 3, 8}), ("5,4", {4, 5})]
)
def test_core_lists(text, cores):
    assert hardware.parse_cores(text) == cores
    assert hardware.parse_cores(hardware.format_cores(cores)) == cores


@pytest.mark.parametrize("text", ["", "a", "3-1", "0-", "-1", "0,,1", "0;1"])
def test_malformed_core_lists(text):
    with pytest.raises(ValueError):  # noqa: PT011 - the caller words the message
        hardware.parse_cores(text)


def test_the_shortest_core_list():
    assert hardware.format_cores({8, 0, 1, 2, 10, 11}) == "0-2,8,10-11"
