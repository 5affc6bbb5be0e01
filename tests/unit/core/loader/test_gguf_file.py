import gguf
import numpy as np
import pytest
import torch

from runtime.core.errors import ModelLoadError
from runtime.core.loader.gguf_file import GGUFFile

# Those that the library can also write.
TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "F16", "BF16"]


def _read(checkpoint):
    found = {}
    for weight in checkpoint.weights():
        found[weight.name] = torch.empty(weight.shape, dtype=weight.dtype)
        weight.copy_into(found[weight.name], lambda source, target: target.copy_(source))
    return found


def _transformers_state(path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate", reason="transformers needs it to read GGUF")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    )
    return model.state_dict()


def test_names_and_rows_are_those_of_the_model(make_gguf, llama_tensors):
    found = _read(GGUFFile(make_gguf()))
    assert found.keys() == llama_tensors.keys()
    for name, expected in llama_tensors.items():
        assert torch.equal(found[name], expected), name


def test_equals_what_transformers_reads(make_gguf):
    path = make_gguf(quantize=gguf.GGMLQuantizationType.Q8_0)
    found, expected = _read(GGUFFile(path)), _transformers_state(path)
    assert found.keys() == expected.keys()
    for name in expected:
        assert torch.equal(found[name], expected[name]), name


@pytest.mark.weights
def test_equals_what_transformers_reads_of_a_real_file(smollm2_path):
    expected = _transformers_state(smollm2_path)
    checkpoint = GGUFFile(smollm2_path)
    assert set(expected) - set(checkpoint.names()) == {"lm_head.weight"}, "the head is tied"
    for weight in checkpoint.weights():
        target = torch.empty(weight.shape)
        weight.copy_into(target, lambda source, target: target.copy_(source))
        assert torch.equal(target, expected[weight.name]), weight.name


@pytest.mark.parametrize("kind", TYPES)
def test_rows_of_each_type(kind, tmp_path):
    block = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]][0]
    values = torch.randn(9, 2 * block).numpy()
    packed = gguf.quantize(values, gguf.GGMLQuantizationType[kind])
    expected = gguf.dequantize(packed, gguf.GGMLQuantizationType[kind])
    writer = gguf.GGUFWriter(tmp_path / "t.gguf", "llama")
    writer.add_tensor("blk.0.ffn_up.weight", packed, raw_dtype=gguf.GGMLQuantizationType[kind])
    for key, value in {"embedding_length": 64, "block_count": 1, "feed_forward_length": 9}.items():
        writer.add_uint32(f"llama.{key}", value)
    writer.add_uint32("llama.attention.head_count", 4)
    writer.add_uint32("llama.vocab_size", 4)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (weight,) = GGUFFile(tmp_path / "t.gguf").weights()
    assert weight.name == "model.layers.0.mlp.up_proj.weight"
    assert weight.shape == (9, 2 * block)
    rows = weight.read(2, 7)
    assert rows.dtype == weight.dtype
    assert torch.equal(rows.float(), torch.from_numpy(expected[2:7]))


def test_reordered_rows_in_parts(make_gguf, llama_tensors):
    checkpoint = GGUFFile(make_gguf(quantize=gguf.GGMLQuantizationType.Q8_0))
    weight = next(w for w in checkpoint.weights() if "1.self_attn.q_proj" in w.name)
    whole = weight.read(0, 64)
    assert torch.equal(torch.cat([weight.read(0, 10), weight.read(10, 64)]), whole)
    torch.testing.assert_close(whole, llama_tensors[weight.name], atol=0.05, rtol=0)


def test_biases_follow_their_rows(make_gguf):
    stored = np.arange(64, dtype=np.float32)
    path = make_gguf(extra={"blk.0.attn_q.bias": stored, "blk.0.attn_v.bias": stored[:32]})
    found = _read(GGUFFile(path))
    prefix = "model.layers.0.self_attn."
    assert found[prefix + "q_proj.bias"][:16].tolist() == [*range(0, 16, 2), *range(1, 16, 2)]
    assert torch.equal(found[prefix + "v_proj.bias"], torch.arange(32.0))


def test_a_tensor_that_the_architecture_lacks_keeps_its_name(make_gguf):
    path = make_gguf(extra={"blk.0.gate_inp.weight": np.zeros((4, 4), np.float32)})
    assert "blk.0.gate_inp.weight" in GGUFFile(path).names()


def test_a_type_that_cannot_be_dequantised(make_gguf):
    path = make_gguf()
    name = b"token_embd.weight"
    data = bytearray(path.read_bytes())
    kind = data.index(name) + len(name) + 4 + 2 * 8
    data[kind : kind + 4] = gguf.GGMLQuantizationType.I32.to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(ModelLoadError, match=r"'token_embd\.weight' is of type I32"):
        GGUFFile(path)
