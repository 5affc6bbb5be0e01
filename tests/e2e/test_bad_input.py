"""Bad input: one clear line, exit code 2, nothing half-loaded."""

import json
import shutil
import struct

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from runtime.core.entrypoints.cli.main import main


@pytest.fixture
def model(tiny_model, tmp_path):
    """A copy of a tiny model that a test may damage."""
    return shutil.copytree(tiny_model("llama"), tmp_path / "model")


@pytest.fixture
def refused(capsys):
    """Run ``runtime generate``, expect exit 2, and give the one line on stderr."""

    def run(path, *words):
        status = main(
            ["generate", str(path), "--skip-tokenizer-init", "--no-use-tqdm-on-load"]
            + (list(words) or ["--prompt", "x"])
        )
        captured = capsys.readouterr()
        assert status == 2, captured.err
        assert captured.out == ""
        errors = [line for line in captured.err.splitlines() if line.startswith("runtime: error:")]
        assert len(errors) == 1, captured.err
        assert "Traceback" not in captured.err
        return errors[0]

    return run


def edit(path, **changes):
    config = json.loads((path / "config.json").read_text())
    config.update(changes)
    (path / "config.json").write_text(json.dumps(config))


def shard(path, count=3):
    """Split a single file into shards with an index."""
    tensors = load_file(path / "model.safetensors")
    names = sorted(tensors)
    weight_map = {name: f"model-{i % count + 1:05}.safetensors" for i, name in enumerate(names)}
    for file in set(weight_map.values()):
        part = {name: tensors[name] for name in names if weight_map[name] == file}
        save_file(part, path / file, metadata={"format": "pt"})
    (path / "model.safetensors").unlink()
    index = {"metadata": {}, "weight_map": weight_map}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))


def test_no_such_path(refused, tmp_path):
    assert str(tmp_path / "nowhere") in refused(tmp_path / "nowhere")


def test_a_folder_without_config(refused, model):
    (model / "config.json").unlink()
    assert "config.json" in refused(model)


def test_a_config_that_is_not_json(refused, model):
    (model / "config.json").write_text("{")
    assert "config.json" in refused(model)


def test_an_unknown_architecture_lists_the_known(refused, model):
    edit(model, architectures=["PolkaDotForCausalLM"])
    line = refused(model)
    assert "PolkaDotForCausalLM" in line
    assert "LlamaForCausalLM" in line


def test_a_shard_that_the_index_names_is_missing(refused, model):
    shard(model)
    (model / "model-00002.safetensors").unlink()
    assert "model-00002.safetensors" in refused(model)


@pytest.mark.parametrize("size", [0, 5, 100, -16])
def test_a_truncated_file_is_named_with_its_sizes(refused, model, size):
    file = model / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:size])
    line = refused(model)
    assert "model.safetensors" in line
    assert str(len(whole[:size])) in line
    if size == -16:
        assert str(len(whole)) in line


def test_trailing_bytes_are_refused(refused, model):
    file = model / "model.safetensors"
    file.write_bytes(file.read_bytes() + b"\0" * 16)
    assert "model.safetensors" in refused(model)


def test_a_header_longer_than_the_file(refused, model):
    file = model / "model.safetensors"
    file.write_bytes(struct.pack("<Q", 2**40) + file.read_bytes()[8:])
    assert "model.safetensors" in refused(model)


def change_tensors(path, change):
    tensors = load_file(path / "model.safetensors")
    change(tensors)
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})


def test_a_missing_tensor_is_named(refused, model):
    change_tensors(model, lambda t: t.pop("model.layers.1.mlp.up_proj.weight"))
    assert "model.layers.1.mlp.up_proj.weight" in refused(model)


def test_an_unexpected_tensor_is_named(refused, model):
    change_tensors(model, lambda t: t.update({"model.extra.weight": t["model.norm.weight"] + 1}))
    assert "model.extra.weight" in refused(model)


def test_a_tensor_of_another_shape_is_named(refused, model):
    name = "model.layers.0.self_attn.q_proj.weight"
    change_tensors(model, lambda t: t.update({name: t[name][:-1].contiguous()}))
    line = refused(model)
    assert name in line
    assert "[63, 64]" in line


def test_an_untied_model_without_its_head(refused, model):
    change_tensors(model, lambda t: t.pop("lm_head.weight"))
    assert "lm_head.weight" in refused(model)


def test_a_quantized_checkpoint_names_its_method(refused, model):
    edit(model, quantization_config={"quant_method": "polka"})
    assert "'polka'" in refused(model)


def test_a_gguf_without_a_tokenizer(tmp_path, capsys):
    import gguf

    path = tmp_path / "bare model.v1.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_vocab_size(40)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tensor("token_embd.weight", np.zeros((40, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert main(["generate", str(path), "--prompt", "x"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("runtime: error:")
    assert "tokenizer" in error


def ids(path, tokens):
    file = path / "prompts.jsonl"
    file.write_text(json.dumps({"prompt_token_ids": tokens}) + "\n")
    return ["--prompt-file", str(file)]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([3] * 300, "300 tokens"),
        ([], "empty"),
        ([3, 257], "257"),
        ([-1], "-1"),
        ([1.5], "1.5"),
        ([True], "True"),
    ],
)
def test_a_prompt_that_the_model_cannot_take(refused, model, tokens, message):
    assert message in refused(model, *ids(model, tokens))


@pytest.mark.parametrize(
    ("flag", "value", "name"),
    [
        ("--temperature", "-1", "temperature"),
        ("--top-p", "0", "top_p"),
        ("--top-k", "-5", "top_k"),
        ("--min-p", "2", "min_p"),
        ("--max-tokens", "-1", "max_tokens"),
        ("--block-size", "3", "block_size"),
        ("--max-num-seqs", "0", "max_num_seqs"),
        ("--max-model-len", "0", "max_model_len"),
        ("--max-model-len", "257", "max_model_len"),
        ("--max-num-batched-tokens", "1", "max_num_batched_tokens"),
        ("--num-kv-blocks-override", "2", "max_model_len"),
        ("--kv-cache-dtype", "fp3", "kv_cache_dtype"),
        ("--device-id", "7", "device_id"),
        ("--tensor-parallel-size", "2", "tensor_parallel_size"),
        ("--platform", "abacus", "abacus"),
    ],
)
def test_a_parameter_out_of_range_is_named(refused, model, flag, value, name):
    assert name in refused(model, flag, value, *ids(model, [3]))


def test_a_prompt_file_that_cannot_be_read(refused, model, tmp_path):
    assert "missing.txt" in refused(model, "--prompt-file", str(tmp_path / "missing.txt"))
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"prompt": "a"}\n{"prompt":\n')
    assert "broken.jsonl:2" in refused(model, "--prompt-file", str(broken))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "a model is required"),
        (["a", "--model", "b"], "two models"),
        (["a"], "a prompt is required"),
        (["a", "--dtype", "int3"], "invalid choice"),
        (["a", "--max-num", "3", "--prompt", "x"], "unrecognized arguments: --max-num"),
        (["a", "--max-num-seqs", "many"], "'many' is not an integer"),
    ],
)
def test_usage_errors(words, message, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["generate", *words])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_stray_files_beside_an_index_are_not_read(model, tiny_model, load, greedy, ragged):
    expected = greedy(load(tiny_model("llama")), ragged, 8)
    shard(model)
    stray = {"model.norm.weight": load_file(model / "model-00001.safetensors").popitem()[1]}
    save_file(stray, model / "model.safetensors")
    save_file(stray, model / "consolidated.safetensors")
    assert greedy(load(model), ragged, 8) == expected


@pytest.mark.parametrize("equal", [True, False])
def test_a_tied_head_in_the_file_is_passed_over(equal, tiny_model, tmp_path, load, greedy, ragged):
    source = tiny_model("llama", tie_word_embeddings=True)
    path = shutil.copytree(source, tmp_path / "tied")
    expected = greedy(load(source), ragged, 8)

    def add_head(tensors):
        table = tensors["model.embed_tokens.weight"]
        tensors["lm_head.weight"] = table.clone() if equal else table.flip(0).contiguous()

    change_tensors(path, add_head)
    assert greedy(load(path), ragged, 8) == expected


def test_the_tokens_that_memory_holds_are_told_or_taken(model, load, caplog):
    from runtime.core.errors import ConfigError

    with pytest.raises(ConfigError, match="max_model_len=96 or less, or 'auto'"):
        load(model, num_kv_blocks_override=6, max_model_len=128)
    llm = load(model, num_gpu_blocks_override=6, max_model_len="auto")
    assert llm.engine.config.model.max_model_len == 96
    assert "lowered from 256 to 96" in caplog.text
