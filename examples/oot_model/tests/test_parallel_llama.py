"""The new architecture computes what plain PyTorch does; the override is in force."""

import json
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file

from runtime import LLM, ModelRegistry, SamplingParams

CONFIG = {
    "vocab_size": 120,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}


@pytest.fixture(scope="module")
def tensors():
    torch.manual_seed(1)
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(**CONFIG, initializer_range=0.3))
    return {
        name: tensor.clone()
        for name, tensor in llama.state_dict().items()
        if "post_attention_layernorm" not in name
    }


@pytest.fixture(scope="module")
def checkpoint(tensors, tmp_path_factory):
    path = tmp_path_factory.mktemp("parallel")
    config = {**CONFIG, "architectures": ["ParallelLlamaForCausalLM"], "dtype": "float32"}
    (path / "config.json").write_text(json.dumps(config))
    save_file(tensors, path / "model.safetensors")
    return path


def reference_logits(tensors, tokens):
    """The model in a few lines of PyTorch, without any cache."""

    def norm(x, name):
        return F.rms_norm(x, x.shape[-1:], tensors[name], 1e-5)

    length, heads, size = len(tokens), 4, 8
    inverse = 10000.0 ** (-torch.arange(0, size, 2) / size)
    angles = torch.outer(torch.arange(length).float(), inverse).repeat(1, 2)

    def rotate(x):
        turned = torch.cat((-x[..., size // 2 :], x[..., : size // 2]), -1)
        return x * angles.cos() + turned * angles.sin()

    x = tensors["model.embed_tokens.weight"][torch.tensor(tokens)]
    for index in range(2):
        base = f"model.layers.{index}"
        n = norm(x, f"{base}.input_layernorm.weight")
        q, k, v = (
            (n @ tensors[f"{base}.self_attn.{p}_proj.weight"].T)
            .view(length, -1, size)
            .transpose(0, 1)
            for p in "qkv"
        )
        k, v = (t.repeat_interleave(heads // 2, 0) for t in (k, v))
        seen = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        attention = seen.transpose(0, 1).flatten(1) @ tensors[f"{base}.self_attn.o_proj.weight"].T
        gate, up, down = (tensors[f"{base}.mlp.{p}_proj.weight"] for p in ("gate", "up", "down"))
        x = x + attention + (F.silu(n @ gate.T) * (n @ up.T)) @ down.T
    return norm(x, "model.norm.weight") @ tensors["lm_head.weight"].T


def generate(path, prompts, **params):
    options = {"skip_tokenizer_init": True, "dtype": "float32", "use_tqdm_on_load": False}
    own = SamplingParams(temperature=0, ignore_eos=True, **params)
    with LLM(str(path), **options) as llm:
        requests = [{"prompt_token_ids": prompt} for prompt in prompts]
        return llm.generate(requests, own, use_tqdm=False)


def test_registering_imports_no_model():
    import parallel_llama

    parallel_llama.register()
    parallel_llama.register()
    assert "ParallelLlamaForCausalLM" in ModelRegistry.get_supported_archs()
    assert "parallel_llama.parallel" not in sys.modules


LATER = """
from runtime import ModelRegistry

runtime_plugin_after = "parallel_llama"

def register():
    ModelRegistry.register_model(
        "LlamaForCausalLM", "runtime.core.models.mistral:MistralForCausalLM"
    )
"""
ASK = """
from runtime import ModelRegistry
from runtime.plugins.manager import default_manager

default_manager().load_general()
print(ModelRegistry.load("LlamaForCausalLM").__name__)
"""


@pytest.mark.parametrize("wish", ["after", "before"])
def test_another_plugin_may_register_after_it_or_before(wish, tmp_path, monkeypatch):
    (tmp_path / "later.py").write_text(LATER.replace("after", wish))
    info = tmp_path / "later-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: later\nVersion: 1\n")
    # By name it would be the first.
    (info / "entry_points.txt").write_text(
        "[runtime.general_plugins]\nan_earlier_name = later:register\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    out = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    winner = {"after": "MistralForCausalLM", "before": "CappedLlamaForCausalLM"}
    assert out.stdout.strip() == winner[wish]


def test_greedy_tokens_equal_plain_pytorch(checkpoint, tensors):
    prompts = [[5], [7, 8, 9], list(range(20, 45))]
    for prompt, output in zip(prompts, generate(checkpoint, prompts, max_tokens=12), strict=True):
        tokens = list(prompt)
        for _ in range(12):
            tokens.append(int(reference_logits(tensors, tokens)[-1].argmax()))
        assert output.outputs[0].token_ids == tokens[len(prompt) :]


def test_the_override_is_in_force(tmp_path):
    torch.manual_seed(2)
    config = transformers.LlamaConfig(**CONFIG, initializer_range=0.5)
    llama = transformers.LlamaForCausalLM(config)
    llama.save_pretrained(tmp_path)
    edited = json.loads((tmp_path / "config.json").read_text())
    edited["final_logit_softcapping"] = 0.5
    (tmp_path / "config.json").write_text(json.dumps(edited))
    (output,) = generate(tmp_path, [[5, 6, 7]], max_tokens=1, logprobs=5)
    with torch.inference_mode():
        logits = llama(torch.tensor([[5, 6, 7]])).logits[0, -1]
    expected = (0.5 * torch.tanh(logits / 0.5)).log_softmax(-1)
    for token, entry in output.outputs[0].logprobs[0].items():
        assert entry.logprob == pytest.approx(float(expected[token]), abs=1e-4)
