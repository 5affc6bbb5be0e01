"""Which provider serves an op, why the others do not, and that calls go there."""

from types import SimpleNamespace

import pytest
import torch

from runtime.core.errors import ConfigError
from runtime.core.ops import registry
from runtime.core.ops.registry import Op, OpDef, Provider, Tolerance, get_op


def _op(name="double"):
    return Op(
        OpDef(
            name=f"test_{name}",
            schema="(Tensor x) -> Tensor",
            reference=lambda x: x * 2,
            fake=torch.empty_like,
            tolerance={torch.float32: Tolerance(0, 0)},
            samples=lambda dtype, generator: iter([(torch.ones(1, dtype=dtype),)]),
        )
    )


@pytest.fixture(scope="module")
def op():
    return _op()


def add(op, name, function=lambda x: x + 0, available=lambda: None, supports=None):
    op.providers[name, "cpu"] = Provider(name, "cpu", function, available, supports)


def platform(*priority):
    policy = SimpleNamespace(op_priority=lambda op: priority)
    return SimpleNamespace(name="test", device_type="cpu", policy=policy)


@pytest.fixture(autouse=True)
def clean(op):
    yield
    op.providers.clear()
    op.installed.clear()
    op._functions.clear()


def test_without_a_provider_the_reference_serves(op):
    resolution = registry._resolve(op, platform())
    assert resolution.provider == "native"
    assert op(torch.tensor([3.0])).item() == 6.0


def test_the_first_available_provider_serves_and_rejections_keep_their_reasons(op):
    add(op, "broken", available=lambda: "needs a newer driver")
    add(op, "good", lambda x: x - 1)
    add(op, "unused")
    resolution = registry._resolve(op, platform("absent", "broken", "good", "unused"))
    assert resolution.provider == "good"
    assert resolution.rejected == (
        ("absent", "not registered for cpu tensors"),
        ("broken", "needs a newer driver"),
    )
    op.install(resolution)
    assert op(torch.tensor([3.0])).item() == 2.0


def test_arguments_that_a_provider_does_not_take_go_to_the_next(op):
    add(op, "even", lambda x: x * 0, supports=lambda x: x.numel() % 2 == 0)
    resolution = registry._resolve(op, platform("even"))
    assert [p.name for p in resolution.chosen] == ["even", "native"]
    op.install(resolution)
    assert op(torch.ones(2)).tolist() == [0, 0]
    assert op(torch.ones(3)).tolist() == [2, 2, 2]


def test_another_platform_cannot_take_over_a_device_type_in_use(op):
    op.install(registry._resolve(op, platform()))
    op.install(registry._resolve(op, platform()))
    add(op, "mine")
    with pytest.raises(ConfigError, match="already served by 'native'"):
        op.install(registry._resolve(op, platform("mine")))


def test_a_provider_registers_by_name_and_may_not_be_called_native():
    known = get_op("silu_and_mul")

    @registry.register_provider("silu_and_mul", provider="mine", device_type="meta")
    def mine(x):
        return x

    assert known.providers["mine", "meta"].function is mine
    del known.providers["mine", "meta"]
    with pytest.raises(ValueError, match="'native'"):
        registry.register_provider("silu_and_mul", provider="native", device_type="cpu")


def test_names_are_unique_and_unknown_ones_are_named():
    with pytest.raises(ValueError, match="'rms_norm' is already defined"):
        registry.define_op(get_op("rms_norm").definition)
    with pytest.raises(ConfigError, match="no op 'sqrt'; known: .*rms_norm"):
        get_op("sqrt")
