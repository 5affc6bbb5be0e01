"""Every instruction set's kernels against the ops' references, and how one is chosen."""

import pytest
import torch

from runtime.core.ops.registry import all_ops
from runtime.platforms.cpu.ops import PROVIDERS

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
OPS = [op for op in all_ops() if op.name in PROVIDERS]


def widened(value):
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if floating else value


def outputs(op, arguments, returned):
    names = [a.name for a in torch._C.parse_schema("f" + op.definition.schema).arguments]
    written = tuple(arguments[names.index(name)] for name in op.definition.mutates)
    if returned is None:
        return written
    return (returned if isinstance(returned, tuple) else (returned,)) + written


def test_every_provider_is_tested():
    assert {op.name for op in OPS} == set(PROVIDERS)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_agrees_with_the_reference(isa, op, dtype, generator):
    function, takes = PROVIDERS[op.name]
    tolerance = op.definition.tolerance[dtype]
    taken = 0
    for sample in op.definition.samples(dtype, generator):
        if not takes(*sample):
            continue
        taken += 1
        exact = [widened(value) for value in sample]
        wanted = outputs(op, exact, op.definition.reference(*exact))
        got = outputs(op, sample, function(*sample))
        for value, expected in zip(got, wanted, strict=True):
            torch.testing.assert_close(
                value.double(), expected.double(), rtol=tolerance.rtol, atol=tolerance.atol
            )
    assert taken > 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_rounding_is_torchs(isa, dtype, kernels):
    """Ties, subnormals, overflow, infinities: adding zero and storing rounds as torch does."""
    edges = [0.0, -0.0, 1 + 2**-9, 1 + 3 * 2**-9, 1 + 2**-12, 65504.0, 65519.0, 2e-7, 6e-8, 1e-8]
    x = torch.tensor(edges + [-v for v in edges] + [3.0e38, 1e-40])[None]
    narrow = x.to(dtype)
    zeros = torch.zeros_like(narrow)
    out, total = torch.empty_like(narrow), torch.empty_like(narrow)
    kernels.fused_add_rms_norm(narrow, zeros, torch.ones_like(narrow)[0], out, total, 1e-6)
    assert torch.equal(total, narrow)
    pairs = torch.rand(2, 3, 257) * 4 - 2
    left, right = pairs.to(dtype)
    out, total = torch.empty_like(left), torch.empty_like(left)
    kernels.fused_add_rms_norm(left, right, torch.ones(257, dtype=dtype), out, total, 1e-6)
    assert torch.equal(total, left + right)


def test_the_gate_at_its_limits(isa, kernels):
    gate = torch.tensor(
        [0.0, 1e-30, -1e-30, 20.0, -20.0, 87.0, -87.0, 100.0, -100.0, 1e30, -1e30, torch.nan]
    )
    out = torch.empty(1, gate.numel())
    kernels.silu_and_mul(torch.cat((gate, torch.ones_like(gate)))[None], out)
    torch.testing.assert_close(
        out[0], torch.nn.functional.silu(gate), rtol=2e-6, atol=1e-30, equal_nan=True
    )


@pytest.mark.parametrize(
    ("value", "chosen"), [("generic", "generic"), (" avx2 ", "avx2"), ("", None)]
)
def test_the_variable_chooses(python, value, chosen):
    import runtime_kernels_cpu as package

    available = package.load().available_isas
    if chosen not in (None, *available):
        pytest.skip(f"this machine has no {chosen}")
    program = "import runtime_kernels_cpu as k; print(k.load().isa)"
    result = python(program, VLLM_CPU_ISA=value)
    assert result.stdout.strip() == (chosen or available[-1]), result.stderr


def test_a_wrong_value_is_one_clear_line(python):
    program = "from runtime.platforms.cpu.platform import CpuPlatform as P; P().load_ops()"
    program += "; from runtime.core.ops.registry import resolve_ops; resolve_ops(P())"
    result = python(program, VLLM_CPU_ISA="sse9")
    last = result.stderr.strip().splitlines()[-1]
    assert result.returncode == 1
    assert "ConfigError: VLLM_CPU_ISA='sse9' cannot be used here; possible: generic" in last


def test_an_unknown_name_changes_nothing(kernels):
    before = kernels.isa()
    with pytest.raises(RuntimeError, match="'sse9' cannot be used here; possible: generic"):
        kernels.use_isa("sse9")
    assert kernels.isa() == before
