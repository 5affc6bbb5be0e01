import gguf
import pytest

from runtime.core.errors import ModelLoadError
from runtime.core.loader.gguf_header import read_header

_KEYS = {
    "general.name": "naïve",
    "x.flag": True,
    "tokenizer.ggml.tokens": ["a", "", "▁b"],
    "tokenizer.ggml.scores": [0.5, -1.0],
    "tokenizer.ggml.ids": [1, 2, 3],
}


def test_agrees_with_the_library(make_gguf):
    path = make_gguf(quantize=gguf.GGMLQuantizationType.Q8_0, keys=_KEYS)
    header = read_header(path)
    reader = gguf.GGUFReader(path)
    fields = {k: f.contents() for k, f in reader.fields.items() if not k.startswith("GGUF.")}
    assert header.metadata == fields
    assert header.metadata["tokenizer.ggml.tokens"] == ["a", "", "▁b"]
    assert [(t.name, t.shape, t.type, t.offset, t.nbytes) for t in header.tensors.values()] == [
        (t.name, tuple(t.shape.tolist())[::-1], t.tensor_type, t.data_offset, t.n_bytes)
        for t in reader.tensors
    ]


@pytest.mark.weights
def test_agrees_with_the_library_on_a_real_file(smollm2_path):
    header, reader = read_header(smollm2_path), gguf.GGUFReader(smollm2_path)
    for key in ("tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.chat_template"):
        assert header.metadata[key] == reader.fields[key].contents()
    assert [t.offset for t in header.tensors.values()] == [t.data_offset for t in reader.tensors]


def test_a_truncated_file(make_gguf):
    path = make_gguf(keys=_KEYS)
    whole = path.read_bytes()
    last = max(read_header(path).tensors.values(), key=lambda tensor: tensor.offset)
    end = last.offset + last.nbytes
    path.write_bytes(whole[: end - 1])
    with pytest.raises(ModelLoadError, match=f"tensors end at byte {end}, the file has {end - 1}"):
        read_header(path)


@pytest.mark.parametrize("size", [4, 7, 23, 24, 60, 300, 700, 1500])
def test_a_file_cut_in_its_header(make_gguf, size):
    path = make_gguf(keys=_KEYS)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ModelLoadError, match=f"truncated GGUF: .* past the file's {size} bytes"):
        read_header(path)


def test_trailing_bytes(make_gguf):
    path = make_gguf()
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + bytes(64))
    with pytest.raises(ModelLoadError, match=f"after the last tensor: .* it has {size + 64}"):
        read_header(path)


def test_an_unknown_version(make_gguf):
    path = make_gguf()
    data = bytearray(path.read_bytes())
    data[4] = 9
    path.write_bytes(data)
    with pytest.raises(ModelLoadError, match=r"version 9 is not supported \(only 2, 3\)"):
        read_header(path)


def test_an_unknown_tensor_type(make_gguf):
    path = make_gguf()
    name = b"token_embd.weight"
    data = bytearray(path.read_bytes())
    kind = data.index(name) + len(name) + 4 + 2 * 8
    data[kind : kind + 4] = (200).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(ModelLoadError, match=r"'token_embd\.weight' has the type 200"):
        read_header(path)


def test_text_that_is_not_utf8(make_gguf):
    path = make_gguf(keys=_KEYS)
    path.write_bytes(path.read_bytes().replace("naïve".encode(), b"na\xff\xffve"))
    with pytest.raises(ModelLoadError, match="not UTF-8"):
        read_header(path)


def test_one_part_of_several(make_gguf):
    path = make_gguf(keys={"split.count": 3})
    with pytest.raises(ModelLoadError, match="one of 3 parts"):
        read_header(path)
