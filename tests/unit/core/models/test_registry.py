"""Architectures by name: lazily imported, overridable, and checked."""

import logging
import sys

import pytest
from torch import nn

from runtime.core.errors import ModelLoadError
from runtime.core.models.registry import NATIVE_MODELS, _ModelRegistry


class Fine(nn.Module):
    def __init__(self, *, config, prefix=""):
        super().__init__()

    def forward(self, input_ids, positions, ctx):
        return input_ids

    def compute_logits(self, hidden):
        return hidden


class OnlyConfig(nn.Module):
    def __init__(self, config):
        super().__init__()


class OtherInputs(Fine):
    def forward(self, input_ids, positions):
        return input_ids


class NoModule:
    forward = Fine.forward
    compute_logits = Fine.compute_logits


@pytest.fixture
def registry():
    return _ModelRegistry()


def test_native_architectures_can_be_loaded(registry):
    assert {"LlamaForCausalLM", "MistralForCausalLM"} <= set(registry.get_supported_archs())
    for name in NATIVE_MODELS:
        assert issubclass(registry.load(name), nn.Module)


def test_an_unknown_architecture_lists_the_known(registry):
    with pytest.raises(ModelLoadError, match=r"PolkaDot is not supported; known: .*Llama"):
        registry.resolve_name(["PolkaDot"])
    with pytest.raises(ModelLoadError, match="none named"):
        registry.resolve_name([])


def test_the_first_known_architecture_is_taken(registry):
    assert registry.resolve_name(["PolkaDot", "MistralForCausalLM"]) == "MistralForCausalLM"


def test_a_registered_name_is_imported_only_when_it_is_needed(registry, tmp_path, monkeypatch):
    (tmp_path / "lazy_model_module.py").write_text(
        "from torch import nn\n"
        "class Model(nn.Module):\n"
        "    def __init__(self, *, config, prefix=''): super().__init__()\n"
        "    def forward(self, input_ids, positions, ctx): return input_ids\n"
        "    def compute_logits(self, hidden): return hidden\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    registry.register_model("Lazy", "lazy_model_module:Model")
    assert registry.resolve_name(["Lazy"]) == "Lazy"
    assert "lazy_model_module" not in sys.modules
    assert registry.load("Lazy").__name__ == "Model"


def test_an_override_of_a_native_architecture_wins_and_is_logged(registry, caplog):
    with caplog.at_level(logging.INFO):
        registry.register_model("LlamaForCausalLM", Fine)
    assert registry.load("LlamaForCausalLM") is Fine
    assert "LlamaForCausalLM is overridden" in caplog.text


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (OnlyConfig, r"keyword 'prefix'; method forward\(\); method compute_logits\(\)"),
        (OtherInputs, r"forward\(\) with the arguments \(input_ids, positions, ctx\)"),
        (NoModule, "being a torch.nn.Module"),
        ("json:loads", "being a class"),
        ("no_such_module_here:Model", "cannot be imported: ModuleNotFoundError: No module named"),
        ("json:Nothing", "cannot be imported"),
    ],
)
def test_a_class_of_the_wrong_shape_is_refused(registry, model, message):
    registry.register_model("Odd", model)
    with pytest.raises(ModelLoadError, match=message):
        registry.load("Odd")


def test_a_module_that_raises_is_one_clear_line(registry, tmp_path, monkeypatch):
    (tmp_path / "raising_model_module.py").write_text("raise RuntimeError('no licence')\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry.register_model("Raising", "raising_model_module:Model")
    with pytest.raises(ModelLoadError, match="architecture Raising: .*RuntimeError: no licence"):
        registry.load("Raising")


@pytest.mark.parametrize("name", ["json", "json.loads", "a b:C", "a:", ":C"])
def test_a_name_that_is_not_qualified_is_refused_at_once(registry, name):
    with pytest.raises(ValueError, match="package.module:Class"):
        registry.register_model("Odd", name)
