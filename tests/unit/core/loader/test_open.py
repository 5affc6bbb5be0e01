import errno
import os
from pathlib import Path

import pytest

from runtime.core.errors import ModelLoadError
from runtime.core.loader.gguf_file import GGUFFile
from runtime.core.loader.hf_directory import HFDirectory
from runtime.core.loader.open import open_checkpoint


@pytest.mark.parametrize("load_format", ["auto", "safetensors", "dummy"])
def test_a_directory(hf_dir, load_format):
    checkpoint = open_checkpoint(str(hf_dir()), load_format)
    assert isinstance(checkpoint, HFDirectory)
    assert checkpoint.config.hidden_size == 8
    assert bool(checkpoint.names()) == (load_format != "dummy")


@pytest.mark.parametrize("load_format", ["auto", "gguf", "dummy"])
def test_a_gguf_file(make_gguf, load_format):
    checkpoint = open_checkpoint(str(make_gguf()), load_format)
    assert isinstance(checkpoint, GGUFFile)
    assert checkpoint.config.hidden_size == 64
    assert bool(checkpoint.names()) == (load_format != "dummy")


@pytest.mark.parametrize("name", ["two words.v1.2.gguf", "no-suffix", "model.bin"])
def test_gguf_is_known_by_content(make_gguf, name):
    assert open_checkpoint(str(make_gguf(name))).config.model_type == "llama"


def test_gguf_by_relative_path_and_link(make_gguf, tmp_path, monkeypatch):
    path = make_gguf()
    (tmp_path / "link").symlink_to(path)
    monkeypatch.chdir(tmp_path)
    for spelling in (path.name, f"./{path.name}", "link", os.path.relpath(path)):
        assert len(open_checkpoint(spelling).names()) == 21


def test_dummy_needs_no_weights(hf_dir):
    path = hf_dir()
    (path / "model.safetensors").unlink()
    checkpoint = open_checkpoint(str(path), "dummy")
    assert list(checkpoint.weights()) == []


def test_no_such_path(tmp_path):
    with pytest.raises(ModelLoadError, match=r"no such path: .*/nowhere"):
        open_checkpoint(str(tmp_path / "nowhere"))


def test_a_file_of_another_kind(tmp_path):
    for content in (b"", b"GG", b"hello world"):
        (tmp_path / "file.gguf").write_bytes(content)
        with pytest.raises(ModelLoadError, match="neither a directory nor a GGUF file"):
            open_checkpoint(str(tmp_path / "file.gguf"))


def test_a_file_that_the_system_refuses(make_gguf, monkeypatch):
    path = make_gguf()

    def refuse(self, *args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ModelLoadError, match=r"tiny\.v1\.gguf cannot be read: Permission denied"):
        open_checkpoint(str(path))


def test_load_format_contradicts(hf_dir, make_gguf):
    with pytest.raises(ModelLoadError, match="load_format=gguf needs a GGUF file"):
        open_checkpoint(str(hf_dir()), "gguf")
    with pytest.raises(ModelLoadError, match="load_format=safetensors needs a directory"):
        open_checkpoint(str(make_gguf()), "safetensors")
    with pytest.raises(ModelLoadError, match="'pt' must be one of auto, safetensors, gguf, dummy"):
        open_checkpoint("anything", "pt")
