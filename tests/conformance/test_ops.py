"""Every op and provider against a float64 evaluation of the reference, on fresh random inputs."""

import pytest
import torch

from runtime.core.ops.registry import all_ops, resolve_ops
from runtime.platforms.cpu.platform import CpuPlatform
from runtime.platforms.null.platform import NullPlatform

PLATFORMS = {"cpu": CpuPlatform, "null": NullPlatform}
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def to_platform(platform, sample):
    def move(value):
        if not isinstance(value, torch.Tensor):
            return value
        target = torch.empty(value.shape, dtype=value.dtype, device=platform.devices.device(0))
        platform.memory.copy_to_device(value, target)
        return target

    return [move(value) for value in sample]


def widened(sample):
    def widen(value):
        floating = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.double() if floating else value

    return [widen(value) for value in sample]


def results(op, sample, out):
    """What an op returned, and the arguments that it wrote to."""
    arguments = op.definition.schema.split(") ->")[0][1:].split(", ")
    names = [argument.split()[-1] for argument in arguments]
    written = [sample[names.index(name)] for name in op.definition.mutates]
    returned = [] if out is None else list(out) if isinstance(out, tuple) else [out]
    return returned + written


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("op", all_ops(), ids=lambda op: op.name)
@pytest.mark.parametrize("platform_name", list(PLATFORMS))
def test_every_provider_agrees_with_the_reference(platform_name, op, dtype):
    platform = PLATFORMS[platform_name]()
    platform.load_ops()
    resolution = next(
        r for r in resolve_ops(platform, install=False).resolutions if r.op == op.name
    )
    tolerance = op.definition.tolerance[dtype]
    generator = torch.Generator()
    print("seed", generator.seed())  # pytest shows it with a failure
    with torch.inference_mode():
        for sample in op.definition.samples(dtype, generator):
            exact = [v.clone() if isinstance(v, torch.Tensor) else v for v in widened(sample)]
            expected = results(op, exact, op.definition.reference(*exact))
            for provider in resolution.chosen:
                own = to_platform(platform, sample)
                if provider.supports is not None and not provider.supports(*own):
                    continue
                got = results(op, own, provider.function(*own))
                for value, wanted in zip(got, expected, strict=True):
                    host = platform.memory.copy_to_host(value)
                    assert host.dtype == dtype
                    torch.testing.assert_close(
                        host.double(), wanted, rtol=tolerance.rtol, atol=tolerance.atol
                    )


@pytest.mark.parametrize("op", all_ops(), ids=lambda op: op.name)
def test_as_a_torch_operator(op):
    """Schema, fake and mutation agree with what the reference does."""
    generator = torch.Generator().manual_seed(0)
    for sample in op.definition.samples(torch.float32, generator):
        torch.library.opcheck(
            op.torch_op,
            sample,
            test_utils=("test_schema", "test_faketensor"),
        )


@pytest.mark.parametrize("op", all_ops(), ids=lambda op: op.name)
def test_in_a_compiled_graph(op):
    generator = torch.Generator().manual_seed(0)
    sample = next(iter(op.definition.samples(torch.float32, generator)))
    again = [v.clone() if isinstance(v, torch.Tensor) else v for v in sample]
    compiled = torch.compile(lambda *args: op(*args), backend="eager", fullgraph=True)
    got = results(op, sample, compiled(*sample))
    expected = results(op, again, op(*again))
    for value, wanted in zip(got, expected, strict=True):
        torch.testing.assert_close(value, wanted)
