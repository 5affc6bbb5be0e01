from pathlib import Path
from types import SimpleNamespace

import gguf
import pytest

from runtime.core.errors import ModelLoadError
from runtime.core.tokenizer.load import load_tokenizer


@pytest.fixture
def checkpoint():
    """A checkpoint that has a tokenizer called ``own``."""
    return SimpleNamespace(path=Path("model"), load_tokenizer=lambda: "own")


def test_the_checkpoints_own(checkpoint):
    assert load_tokenizer(checkpoint) == "own"


def test_another_directory(checkpoint, tokenizer_dir):
    tokenizer = load_tokenizer(checkpoint, str(tokenizer_dir()))
    assert tokenizer.decode(tokenizer.encode("Hello")) == "Hello"


def test_another_gguf_file(checkpoint, byte_level_metadata, tmp_path):
    path = tmp_path / "only vocabulary.v1"
    writer = gguf.GGUFWriter(path, "llama")
    add = {str: writer.add_string, list: writer.add_array, int: writer.add_uint32}
    add[bool] = writer.add_bool
    for key, value in byte_level_metadata.items():
        add[type(value)](key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    tokenizer = load_tokenizer(checkpoint, str(path))
    assert tokenizer.decode(tokenizer.encode("Hello 世界")) == "Hello 世界"


def test_nothing_there(checkpoint, tmp_path):
    with pytest.raises(ModelLoadError, match="no such path"):
        load_tokenizer(checkpoint, str(tmp_path / "nowhere"))
    (tmp_path / "file").write_text("hello")
    with pytest.raises(ModelLoadError, match="neither a directory nor a GGUF file"):
        load_tokenizer(checkpoint, str(tmp_path / "file"))
