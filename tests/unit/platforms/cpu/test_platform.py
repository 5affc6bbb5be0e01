"""What the CPU platform says of itself."""

from __future__ import annotations

import sys

import pytest

from runtime.platforms.cpu import hardware, register
from runtime.platforms.cpu.platform import SCORE, CpuPlatform


def test_the_entry_function_names_the_class():
    module, _, name = register().partition(":")
    assert (module, name) == (CpuPlatform.__module__, CpuPlatform.__name__)


@pytest.mark.parametrize(
    ("machine", "system", "start"),
    [
        ("x86_64", "linux", "x86-64, 3 cores"),
        ("AMD64", "darwin", "x86-64, 3 cores"),
        ("aarch64", "linux", "ARM64, 3 cores"),
        ("arm64", "darwin", "ARM64, 3 cores"),
    ],
)
def test_where_it_runs(monkeypatch, machine, system, start):
    monkeypatch.setattr(hardware.platform, "machine", lambda: machine)
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr("runtime.platforms.cpu.platform.physical_cores", lambda cores: [0, 1, 2])
    result = CpuPlatform.probe()
    assert result.score == SCORE
    assert result.reason.startswith(start)


def test_where_it_does_not_run_it_says_why(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert CpuPlatform.probe().score is None
    assert "win32" in CpuPlatform.probe().reason
    monkeypatch.setattr("runtime.platforms.cpu.platform.architecture", lambda: None)
    monkeypatch.setattr("runtime.platforms.cpu.platform.machine", lambda: "riscv64")
    assert not CpuPlatform.probe().available
    assert "riscv64" in CpuPlatform.probe().reason


@pytest.mark.parametrize(
    ("widest", "isa", "expected"),
    [
        ("AVX-512 BF16", "", "bfloat16"),
        ("AMX BF16", "amx", "bfloat16"),
        ("AVX-512 BF16", "avx512", "float32"),
        ("AVX2", "", "float32"),
        (None, "", "float32"),
    ],
)
def test_blocks_run_in_bfloat16_where_it_is_multiplied(monkeypatch, widest, isa, expected):
    monkeypatch.setattr("runtime.platforms.cpu.platform.architecture", lambda: "x86-64")
    monkeypatch.setattr("runtime.platforms.cpu.platform.instruction_set", lambda arch: widest)
    monkeypatch.setenv("VLLM_CPU_ISA", isa)
    assert CpuPlatform().capabilities.quantized_dtype == expected
