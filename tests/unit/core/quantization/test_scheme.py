"""Which scheme a linear layer gets, and what a layer asks of it."""

from types import SimpleNamespace

import pytest
import torch

from runtime.core.config.hf_config import HFConfig
from runtime.core.errors import ModelLoadError
from runtime.core.layers.linear import Linear, MergedLinear
from runtime.core.platform.interface import PlatformPolicy
from runtime.core.quantization.scheme import DenseScheme, scheme_for


class TransposedScheme(DenseScheme):
    """Keeps the weights for the other order of multiplication, once they are loaded."""

    def after_loading(self, layer):
        layer.turned = layer.weight.t().contiguous()

    def apply(self, layer, x, bias):
        out = x @ layer.turned
        return out if bias is None else out + bias


class OwnScheme(PlatformPolicy):
    def linear_scheme(self, method):
        return f"{__name__}:TransposedScheme" if method == "turned" else None


@pytest.fixture
def config():
    """A configuration as far as linear layers look at it."""

    def make(method=None, policy=None):
        hf = {} if method is None else {"quantization_config": {"quant_method": method}}
        model = SimpleNamespace(hf=HFConfig(hf), dtype=torch.float32, quantization=None)
        platform = SimpleNamespace(policy=policy or PlatformPolicy())
        return SimpleNamespace(model=model, platform=platform, device=lambda: torch.device("cpu"))

    return make


def fill(layer):
    for tensor in layer.checkpoint_tensors().values():
        tensor.normal_()
    layer.process_weights_after_loading()


def test_a_plain_checkpoint_is_dense(config):
    assert isinstance(scheme_for(config(), "a"), DenseScheme)


def test_an_unsupported_method_is_refused_by_name(config):
    with pytest.raises(ModelLoadError, match=r"model.layers.0.q: .* by 'polka'"):
        scheme_for(config("polka"), "model.layers.0.q")


@pytest.mark.parametrize("bias", [True, False])
def test_a_platform_brings_its_own_scheme(config, bias):
    layer = Linear(8, 6, bias=bias, config=config("turned", OwnScheme()), prefix="p")
    assert isinstance(layer.scheme, TransposedScheme)
    fill(layer)
    x = torch.randn(3, 8)
    expected = torch.nn.functional.linear(x, layer.weight, layer.bias)
    torch.testing.assert_close(layer(x), expected)


def test_a_merged_layer_fills_from_its_siblings(config):
    layer = MergedLinear(
        4, {"q": 3, "k": 2}, bias=True, config=config(), prefix="model.layers.0.attn.qk"
    )
    views = layer.checkpoint_tensors()
    base = "model.layers.0.attn"
    assert {name: tuple(view.shape) for name, view in views.items()} == {
        f"{base}.q.weight": (3, 4),
        f"{base}.q.bias": (3,),
        f"{base}.k.weight": (2, 4),
        f"{base}.k.bias": (2,),
    }
    fill(layer)
    x = torch.randn(5, 4)
    linear = torch.nn.functional.linear
    parts = [linear(x, views[f"{base}.{n}.weight"], views[f"{base}.{n}.bias"]) for n in "qk"]
    torch.testing.assert_close(layer(x), torch.cat(parts, dim=-1))
