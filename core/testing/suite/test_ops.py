"""Every op: each provider against a float64 evaluation of the reference, on fresh inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from runtime.core.ops.registry import NATIVE, Op, Provider, Sample, all_ops, get_op
from runtime.core.platform.interface import Platform
from runtime.core.testing.comparison import Deviation, deviation, worst
from runtime.core.testing.session import conformance
from runtime.core.testing.tensors import copies, seconds, to_device, widened


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each op, with each provider and dtype where the test takes them."""
    names = metafunc.fixturenames
    if "provider" in names:
        platform = conformance(metafunc.config).platform
        cases = [
            (op.name, provider, dtype)
            for op in all_ops()
            for provider in _providers(op, platform)
            for dtype in _dtypes(op, platform)
        ]
        ids = ["-".join(case) for case in cases]
        metafunc.parametrize(("op", "provider", "dtype"), cases, ids=ids)
    elif "op" in names:
        metafunc.parametrize("op", [op.name for op in all_ops()])


def _providers(op: Op, platform: Platform) -> list[str]:
    """Those that the platform names, in its order, and others that are registered; then native."""
    registered = [name for name, kind in op.providers if kind == platform.device_type]
    return list(dict.fromkeys([*platform.policy.op_priority(op.name), *registered, NATIVE]))


def _dtypes(op: Op, platform: Platform) -> list[str]:
    """What the platform runs, then what else the op has a tolerance for."""
    known = [str(dtype).removeprefix("torch.") for dtype in op.definition.tolerance]
    return list(dict.fromkeys([*platform.capabilities.dtypes, *known]))


def _usable(op: Op, name: str, platform: Platform) -> Provider:
    """A provider that can be called in this process.

    One that the platform names must be registered: it is missed otherwise, and silently replaced.
    """
    if name == NATIVE:
        return Provider(NATIVE, platform.device_type, op.definition.reference, lambda: None, None)
    entry = op.providers.get((name, platform.device_type))
    if entry is None:
        pytest.fail(
            f"platform {platform.name}, op {op.name}, provider {name}: the platform's op_priority "
            f"names it, but it is not registered for {platform.device_type} tensors"
        )
    reason = entry.available()
    if reason is not None:
        pytest.skip(f"not available here: {reason}")
    return entry


@dataclass(frozen=True)
class _Case:
    """One provider in one dtype, and how its failures are told."""

    platform: Platform
    op: Op
    provider: Provider
    dtype: torch.dtype
    seed: int

    def fail(self, what: str) -> None:
        pytest.fail(
            f"platform {self.platform.name}, op {self.op.name}, provider {self.provider.name}, "
            f"{self.dtype}: {what}; seed {self.seed} (--runtime-seed)"
        )

    def check(self, number: int, sample: Sample) -> list[Deviation] | None:
        """Deviations of one call's results; None where the provider does not take the sample."""
        definition = self.op.definition
        exact = widened(sample)
        expected = _results(self.op, exact, definition.reference(*exact))
        own = [to_device(self.platform, value) for value in sample]
        if self.provider.supports is not None and not self.provider.supports(*own):
            return None
        got = _results(self.op, own, self.provider.function(*own))
        shapes = [v.to("meta") if isinstance(v, torch.Tensor) else v for v in sample]
        fakes = _results(self.op, shapes, definition.fake(*shapes))
        if len(got) != len(fakes):
            self.fail(f"it gives {len(got)} results, the fake gives {len(fakes)}")
        self._check_untouched(number, sample, own)
        return [
            self._compare(f"sample {number}, result {place}", *values)
            for place, values in enumerate(zip(got, fakes, expected, strict=True))
        ]

    def _compare(
        self, where: str, got: torch.Tensor, fake: torch.Tensor, expected: torch.Tensor
    ) -> Deviation:
        tolerance = self.op.definition.tolerance[self.dtype]
        if got.device.type != self.platform.device_type:
            self.fail(f"{where} is on {got.device}, not on a {self.platform.device_type} device")
        if got.dtype != fake.dtype or got.shape != fake.shape:
            self.fail(
                f"{where} is {got.dtype} of shape {tuple(got.shape)}, "
                f"the op's fake gives {fake.dtype} of shape {tuple(fake.shape)}"
            )
        found = deviation(self.platform.memory.copy_to_host(got), expected, tolerance)
        if not found.acceptable:
            self.fail(
                f"{where}: error {found.error:.3g} is {found.share:.3g} times what "
                f"rtol={tolerance.rtol:g}, atol={tolerance.atol:g} allow"
            )
        return found

    def _check_untouched(self, number: int, sample: Sample, own: list[Any]) -> None:
        for name, before, value in zip(_argument_names(self.op), sample, own, strict=True):
            if not isinstance(value, torch.Tensor) or name in self.op.definition.mutates:
                continue
            after = self.platform.memory.copy_to_host(value)
            if not torch.equal(after, before):
                self.fail(f"sample {number}: it writes to {name!r}, which the schema does not say")


def _argument_names(op: Op) -> list[str]:
    return [
        argument.name for argument in torch._C.parse_schema("f" + op.definition.schema).arguments
    ]


def _results(op: Op, arguments: list[Any], out: Any) -> list[torch.Tensor]:
    """What an op returned, and the arguments that it wrote to."""
    names = _argument_names(op)
    written = [arguments[names.index(name)] for name in op.definition.mutates]
    returned = [] if out is None else list(out) if isinstance(out, (tuple, list)) else [out]
    return returned + written


def _samples(op: Op, dtype: torch.dtype, generator: torch.Generator) -> list[Sample]:
    return list(op.definition.samples(dtype, generator))


@torch.inference_mode()
def test_agreement(
    platform: Platform,
    op: str,
    provider: str,
    dtype: str,
    generator: torch.Generator,
    seed: int,
    perf: bool,
    record_property: Any,
) -> None:
    """Agrees with the reference in float64."""
    definition = get_op(op)
    entry = _usable(definition, provider, platform)
    kind: torch.dtype = getattr(torch, dtype)
    if dtype not in platform.capabilities.dtypes:
        pytest.skip(f"the platform does not run {dtype}")
    if kind not in definition.definition.tolerance:
        pytest.skip(f"the op has no tolerance for {dtype}")
    case = _Case(platform, definition, entry, kind, seed)
    samples = _samples(definition, kind, generator)
    checked = [case.check(number, sample) for number, sample in enumerate(samples)]
    taken = [sample for sample, found in zip(samples, checked, strict=True) if found is not None]
    if not taken:
        pytest.skip("the provider takes none of the samples")
    record_property("max error", str(worst(d for found in checked for d in found or ())))
    if perf:
        _measure(platform, definition, entry, taken, record_property)


def _measure(
    platform: Platform, op: Op, entry: Provider, samples: list[Sample], record_property: Any
) -> None:
    """Time provider and reference on the largest sample, both on the device."""
    largest = max(samples, key=_elements)
    own = [to_device(platform, value) for value in largest]
    time = seconds(platform, lambda: entry.function(*own))
    reference = seconds(platform, lambda: op.definition.reference(*own))
    record_property("time", f"{time * 1e6:.1f} us")
    record_property("reference", f"{reference * 1e6:.1f} us")
    record_property("speed-up", f"{reference / time:.2f}")


def _elements(sample: Sample) -> int:
    return sum(value.numel() for value in sample if isinstance(value, torch.Tensor))


def test_torch_operator(op: str, generator: torch.Generator) -> None:
    """Is a sound torch operator: schema, fake and mutation (opcheck, on the host)."""
    definition = get_op(op)
    operator: Any = definition.torch_op
    for sample in _samples(definition, torch.float32, generator):
        torch.library.opcheck(operator, sample, test_utils=("test_schema", "test_faketensor"))


def test_compiled_graph(op: str, generator: torch.Generator) -> None:
    """Is one node of a compiled graph (on the host)."""
    definition = get_op(op)
    sample = _samples(definition, torch.float32, generator)[0]
    again = copies(sample)
    # The function below is one for all ops, and has been compiled for others.
    torch.compiler.reset()
    compiled = torch.compile(lambda *args: definition(*args), backend="eager", fullgraph=True)
    got = _results(definition, list(sample), compiled(*sample))
    expected = _results(definition, again, definition(*again))
    for value, wanted in zip(got, expected, strict=True):
        torch.testing.assert_close(value, wanted)
