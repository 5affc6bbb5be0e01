import json

import pytest
import torch
from safetensors.torch import save_file

from runtime.core.errors import ModelLoadError
from runtime.core.loader.safetensors_file import SafetensorsWeight, read_entries


@pytest.fixture
def file(tmp_path):
    """A file of two tensors, 64 + 12 bytes of data."""
    path = tmp_path / "model.safetensors"
    save_file({"x": torch.arange(16.0).view(4, 4), "y": torch.arange(3, dtype=torch.int32)}, path)
    return path


def _write(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_entries(file):
    entries = read_entries(file)
    assert {name: (e.dtype, e.shape) for name, e in entries.items()} == {
        "x": (torch.float32, (4, 4)),
        "y": (torch.int32, (3,)),
    }
    weight = SafetensorsWeight(file, "x", entries["x"])
    assert weight.read(1, 3).tolist() == [[4.0, 5, 6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize("lost", [1, 12, 76])
def test_a_truncated_file(file, lost):
    whole = file.read_bytes()
    file.write_bytes(whole[:-lost])
    message = rf"model\.safetensors: truncated: .* {len(whole)} bytes, the file has "
    with pytest.raises(ModelLoadError, match=message + str(len(whole) - lost)):
        read_entries(file)


@pytest.mark.parametrize("size", [0, 3, 8, 20])
def test_a_file_cut_in_its_header(file, size):
    whole = file.read_bytes()
    file.write_bytes(whole[:size])
    needed = 8 if size < 8 else 8 + int.from_bytes(whole[:8], "little")
    with pytest.raises(ModelLoadError, match=f"at least {needed} bytes, the file has {size}$"):
        read_entries(file)


def test_trailing_bytes(file):
    whole = file.read_bytes()
    file.write_bytes(whole + bytes(16))
    with pytest.raises(
        ModelLoadError, match=f"16 bytes after the tensors: .* {len(whole)} bytes, the file has"
    ):
        read_entries(file)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{oops", "not a JSON object"),
        (b"[]", "not a JSON object"),
        ({"x": {"dtype": "F32", "shape": [2]}}, "'x' lacks dtype, shape or offsets"),
        ({"x": 3}, "'x' lacks dtype, shape or offsets"),
        ({"x": {"dtype": "F4", "shape": [2], "data_offsets": [0, 8]}}, "dtype F4"),
        (
            {"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}},
            "needs 12 bytes, it is given 8",
        ),
    ],
)
def test_a_damaged_header(tmp_path, header, message):
    path = tmp_path / "m.safetensors"
    _write(path, header, bytes(8))
    with pytest.raises(ModelLoadError, match=message):
        read_entries(path)


def test_no_tensors(tmp_path):
    path = tmp_path / "m.safetensors"
    _write(path, {"__metadata__": {"format": "pt"}})
    assert read_entries(path) == {}
