import subprocess
import sys
import textwrap

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from runtime.core.errors import ModelLoadError
from runtime.core.loader.dummy import DUMMY_RANGE
from runtime.core.loader.hf_directory import HFDirectory
from runtime.core.loader.load import load_weights
from runtime.platforms.null.platform import NullPlatform


class _Merged(nn.Module):
    """Two tensors of a checkpoint in one parameter."""

    def __init__(self, device, dtype):
        super().__init__()
        self.weight = nn.Parameter(torch.full((10, 4), 7.0, dtype=dtype, device=device), False)
        self.calls = []

    def checkpoint_tensors(self):
        return {"q.weight": self.weight[:6], "k.weight": self.weight[6:]}

    def process_weights_after_loading(self):
        self.calls.append("processed")


class _Norm(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.weight = nn.Parameter(torch.full((4,), 7.0, device=device), False)

    def checkpoint_tensors(self):
        return {"norm.weight": self.weight}


class _Model(nn.Module):
    def __init__(self, device, dtype=torch.float32):
        super().__init__()
        self.merged = _Merged(device, dtype)
        self.norm = _Norm(device)

    def checkpoint_name(self, name):
        return None if name == "inv_freq" else name.removeprefix("model.")


@pytest.fixture
def platform():
    return NullPlatform()


@pytest.fixture
def model(platform):
    return _Model(platform.devices.device())


@pytest.fixture
def stored():
    return {
        "model.q.weight": torch.randn(6, 4),
        "model.k.weight": torch.randn(4, 4),
        "model.norm.weight": torch.randn(4),
        "inv_freq": torch.randn(2),
    }


@pytest.fixture
def checkpoint(tmp_path, stored):
    """A directory with ``stored``, some of it changed or (None) left out."""

    def make(**changes):
        merged = {**stored, **changes}
        tensors = {name: value for name, value in merged.items() if value is not None}
        (tmp_path / "config.json").write_text("{}")
        save_file(tensors, tmp_path / "model.safetensors")
        return HFDirectory(tmp_path)

    return make


def _untouched(model, platform):
    return all(
        platform.memory.copy_to_host(parameter).eq(7).all() for parameter in model.parameters()
    )


def test_every_view_is_filled(model, checkpoint, stored, runtime_config, platform):
    load_weights(model, checkpoint(), runtime_config())
    weight = platform.memory.copy_to_host(model.merged.weight)
    assert torch.equal(weight[:6], stored["model.q.weight"])
    assert torch.equal(weight[6:], stored["model.k.weight"])
    norm = platform.memory.copy_to_host(model.norm.weight)
    assert torch.equal(norm, stored["model.norm.weight"])
    assert model.merged.calls == ["processed"]


def test_values_are_converted_to_the_parameters_dtype(checkpoint, stored, runtime_config, platform):
    model = _Model(platform.devices.device(), torch.bfloat16)
    load_weights(model, checkpoint(), runtime_config())
    weight = platform.memory.copy_to_host(model.merged.weight)
    assert torch.equal(weight[:6], stored["model.q.weight"].to(torch.bfloat16))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.k.weight": None}, r"lacks 1 tensor \(k\.weight\)"),
        ({"model.extra": torch.ones(2)}, r"has 1 tensor \(model\.extra\) that the model does not"),
        (
            {f"x{i}": torch.ones(1) for i in range(7)},
            r"has 7 tensors \(x0, x1, x2, x3, x4, …\)",
        ),
        ({"model.q.weight": torch.ones(4, 6)}, r"q\.weight is \[4, 6\], the model's is \[6, 4\]"),
        ({"q.weight": torch.ones(6, 4)}, "are both the model's 'q.weight'"),
    ],
)
def test_what_does_not_fit_is_refused_before_any_copy(
    model, checkpoint, runtime_config, platform, changes, message
):
    with pytest.raises(ModelLoadError, match=message):
        load_weights(model, checkpoint(**changes), runtime_config())
    assert _untouched(model, platform)
    assert model.merged.calls == []


def test_one_message_says_all(model, checkpoint, runtime_config):
    changed = checkpoint(**{"model.k.weight": None, "other": torch.ones(1)})
    with pytest.raises(ModelLoadError, match=r"does not fit _Model: it lacks 1 .*, and has 1 "):
        load_weights(model, changed, runtime_config())


def test_dummy_weights(model, checkpoint, runtime_config, platform):
    def load(seed, device):
        own = _Model(device)
        load_weights(own, checkpoint(), runtime_config("dummy", seed))
        assert own.merged.calls == ["processed"]
        return platform.memory.copy_to_host(own.merged.weight)

    null = platform.devices.device()
    first = load(0, null)
    assert first.abs().max() <= DUMMY_RANGE
    assert len(first.unique()) == first.numel(), "no value twice, so no view shares another's"
    assert torch.equal(first, load(0, null))
    assert not torch.equal(first, load(1, null))


def test_dummy_weights_are_those_of_any_device(checkpoint, runtime_config, platform):
    host, device = _Model("cpu"), _Model(platform.devices.device())

    class _Host(NullPlatform):
        class memory:  # noqa: N801 (plays a role object)
            @staticmethod
            def copy_to_device(source, target):
                target.copy_(source)

    load_weights(host, checkpoint(), runtime_config("dummy", platform=_Host()))
    load_weights(device, checkpoint(), runtime_config("dummy"))
    on_device = platform.memory.copy_to_host(device.merged.weight)
    assert torch.equal(host.merged.weight, on_device)


def test_progress_goes_to_stderr(model, checkpoint, runtime_config, capsys):
    load_weights(model, checkpoint(), runtime_config(use_tqdm=True))
    shown = capsys.readouterr()
    assert "Loading weights: 100%" in shown.err
    assert shown.out == ""
    load_weights(model, checkpoint(), runtime_config())
    assert "Loading" not in capsys.readouterr().err


PEAK = """
    import sys
    from pathlib import Path
    from types import SimpleNamespace
    import psutil, torch
    from torch import nn
    from runtime.core.loader.load import load_weights
    from runtime.core.loader.open import open_checkpoint
    from runtime.platforms.null.platform import NullPlatform

    platform = NullPlatform()
    device = platform.devices.device()
    checkpoint = open_checkpoint(sys.argv[1])
    torch.empty(1, device=device)
    before = psutil.Process().memory_info().rss

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tensors = nn.ParameterDict({
                weight.name.replace(".", "/"): nn.Parameter(
                    torch.empty(weight.shape, dtype=torch.bfloat16, device=device), False)
                for weight in checkpoint.weights()})

        def checkpoint_tensors(self):
            return {name.replace("/", "."): value for name, value in self.tensors.items()}

    model = Model()
    config = SimpleNamespace(
        platform=platform, parallel=SimpleNamespace(device_ids=(0,)),
        load=SimpleNamespace(load_format="auto", use_tqdm=False), model=SimpleNamespace(seed=0))
    load_weights(model, checkpoint, config)
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    # Not getrusage, whose peak is inherited from the process that started this one.
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    print((peak - before) / weights)
"""


def _peak(path):
    """Peak memory over what was there before, in units of the weights."""
    script = textwrap.dedent(PEAK)
    run = [sys.executable, "-c", script, str(path)]
    return float(subprocess.run(run, check=True, capture_output=True, text=True).stdout)


def test_peak_memory_of_a_directory(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    # Stored in twice the width of the run-time dtype: 640 MiB for 320 MiB of weights.
    tensors = {f"w{i}": torch.zeros(4096, 4096) for i in range(8)} | {
        "wide": torch.zeros(32000, 1024)
    }
    save_file(tensors, tmp_path / "model.safetensors")
    assert _peak(tmp_path) < 1.3


@pytest.mark.weights
def test_peak_memory_of_a_gguf_file(smollm2_path):
    assert _peak(smollm2_path) < 1.3
