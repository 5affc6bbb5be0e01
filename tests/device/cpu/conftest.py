"""The compiled kernels, where they are installed."""

import subprocess
import sys

import pytest
import torch

pytest.importorskip("runtime_kernels_cpu", reason="runtime-kernels-cpu is not installed")

import runtime_kernels_cpu

ISAS = runtime_kernels_cpu.load().available_isas


@pytest.fixture
def kernels():
    """The operators; the threads and the instruction set are afterwards as they were."""
    ops = torch.ops.runtime_kernels_cpu
    threads, isa = ops.threads(), ops.isa()
    yield ops
    ops.use_threads(threads)
    ops.use_isa(isa)


@pytest.fixture(params=ISAS)
def isa(request, kernels):
    """Each instruction set of this machine in turn."""
    kernels.use_isa(request.param)
    return request.param


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(torch.seed() % 2**63)


@pytest.fixture
def python():
    """Run a program in a fresh interpreter: ``python(program, **environment)``."""

    def run(program, **environment):
        import os

        return subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            timeout=120,
        )

    return run
