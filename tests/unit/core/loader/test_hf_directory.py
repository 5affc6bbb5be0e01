import json
import shutil

import pytest
import torch
from safetensors.torch import save_file

from runtime.core.errors import ModelLoadError
from runtime.core.loader.hf_directory import HFDirectory


def _read(checkpoint):
    found = {}
    for weight in checkpoint.weights():
        found[weight.name] = torch.empty(weight.shape, dtype=weight.dtype)
        weight.copy_into(found[weight.name], lambda source, target: target.copy_(source))
    return found


def _same(found, expected):
    return found.keys() == expected.keys() and all(
        found[name].dtype == value.dtype and torch.equal(found[name], value)
        for name, value in expected.items()
    )


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_all_tensors_are_read(hf_dir, tensors, shards):
    checkpoint = HFDirectory(hf_dir(shards))
    assert sorted(checkpoint.names()) == sorted(tensors)
    assert _same(_read(checkpoint), tensors)


def test_rows_of_a_tensor(hf_dir, tensors):
    weight = next(w for w in HFDirectory(hf_dir()).weights() if w.name == "a.weight")
    assert torch.equal(weight.read(2, 5), tensors["a.weight"][2:5])


def test_only_what_the_index_names_is_read(hf_dir, tensors):
    path = hf_dir(2)
    for stray in ("model.safetensors", "consolidated.safetensors"):
        save_file({name: value + 1 for name, value in tensors.items()}, path / stray)
    assert _same(_read(HFDirectory(path)), tensors)


def test_generation_config(hf_dir):
    path = hf_dir()
    assert len(HFDirectory(path).generation_config) == 0
    (path / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    assert HFDirectory(path).generation_config.eos_token_id == [1, 2]


def test_a_directory_without_a_config(tmp_path, make_gguf):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ModelLoadError, match=r"empty is not a model directory: it has no config"):
        HFDirectory(empty)
    make_gguf("one.gguf")
    with pytest.raises(ModelLoadError, match=r"name one of them, e.g. .*/one\.gguf"):
        HFDirectory(tmp_path)


@pytest.mark.parametrize("text", ["{oops", "[1]", ""])
def test_a_config_that_is_no_object(hf_dir, text):
    path = hf_dir()
    (path / "config.json").write_text(text)
    with pytest.raises(ModelLoadError, match=r"config\.json (is not JSON|must hold)"):
        HFDirectory(path)


def test_no_weights(hf_dir):
    path = hf_dir()
    (path / "model.safetensors").rename(path / "pytorch_model.bin")
    with pytest.raises(ModelLoadError, match=r"model\.safetensors\.index.*pytorch_model\.bin"):
        HFDirectory(path)


def test_a_missing_shard(hf_dir):
    path = hf_dir(3)
    (path / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(
        ModelLoadError, match=r"model-00002-of-00003\.safetensors, which is missing"
    ):
        HFDirectory(path)


def test_a_tensor_that_its_shard_lacks(hf_dir):
    path = hf_dir(2)
    index = path / "model.safetensors.index.json"
    values = json.loads(index.read_text())
    values["weight_map"]["ghost"] = "model-00001-of-00002.safetensors"
    index.write_text(json.dumps(values))
    with pytest.raises(ModelLoadError, match=r"model-00001-of-00002\.safetensors holds 'ghost'"):
        HFDirectory(path)


def test_an_index_stays_in_its_directory(hf_dir, tmp_path):
    path = hf_dir(2)
    shutil.copy(path / "model-00001-of-00002.safetensors", tmp_path / "outside.safetensors")
    index = path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a.weight": "../outside.safetensors"}}))
    with pytest.raises(ModelLoadError, match="not a file beside it"):
        HFDirectory(path)
    index.write_text("{}")
    with pytest.raises(ModelLoadError, match="has no weight_map"):
        HFDirectory(path)
