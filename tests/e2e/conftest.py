"""Tiny random models, made with transformers, and what transformers generates from them."""

import json
import shutil

import pytest
import torch
from tokenizers import Tokenizer, decoders, models
from tokenizers.pre_tokenizers import ByteLevel

from runtime import LLM, SamplingParams


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """Make a tiny random model directory: ``tiny_model("llama", **config) -> path``."""
    transformers = pytest.importorskip("transformers")
    made = {}

    def make(kind="llama", **overrides):
        key = (kind, repr(sorted(overrides.items())))
        if key not in made:
            classes = {
                "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
                "mistral": (transformers.MistralConfig, transformers.MistralForCausalLM),
            }
            config_class, model_class = classes[kind]
            values = {
                "vocab_size": 257,
                "hidden_size": 64,
                "intermediate_size": 96,
                "num_hidden_layers": 3,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "max_position_embeddings": 256,
                "initializer_range": 0.3,
                "bos_token_id": 1,
                "eos_token_id": 2,
                "tie_word_embeddings": False,
                **overrides,
            }
            torch.manual_seed(len(made))
            model = model_class(config_class(**values)).float().eval()
            for name, tensor in model.named_parameters():
                if name.endswith("bias"):
                    torch.nn.init.normal_(tensor, std=0.3)
            path = tmp_path_factory.mktemp(kind)
            model.save_pretrained(path)
            made[key] = path
        return made[key]

    return make


@pytest.fixture(scope="session")
def byte_model(tiny_model, tmp_path_factory):
    """A tiny random model whose tokens are bytes; 2 ends an output."""
    folder = tmp_path_factory.mktemp("bytes") / "model"
    shutil.copytree(tiny_model("llama", vocab_size=288), folder)
    tokens = ["<unk>", "<s>", "</s>", *sorted(ByteLevel.alphabet())]
    backend = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, []))
    backend.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(tokens[:3])
    backend.save(str(folder / "tokenizer.json"))
    config = {"eos_token": "</s>", "bos_token": "<s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="session")
def reference():
    """What transformers generates greedily: ``reference(path, prompts, n) -> token lists``."""
    transformers = pytest.importorskip("transformers")
    models = {}

    def generate(path, prompts, max_new_tokens, **kwargs):
        if path not in models:
            models[path] = transformers.AutoModelForCausalLM.from_pretrained(
                path, dtype=torch.float32, attn_implementation="eager"
            ).eval()
            models[path].generation_config.eos_token_id = None  # never ends early
        outputs = []
        for prompt in prompts:
            ids = torch.tensor([prompt])
            options = {
                "do_sample": False,
                "max_new_tokens": max_new_tokens,
                "pad_token_id": 0,
                "attention_mask": torch.ones_like(ids),
                **kwargs,
            }
            with torch.inference_mode():
                out = models[path].generate(ids, **options)
            outputs.append(out[:, len(prompt) :].tolist())
        return [rows[0] if len(rows) == 1 else rows for rows in outputs]

    return generate


@pytest.fixture(scope="session")
def load():
    """Load a tiny model in float32 without a tokenizer; shut down at the end of the session."""
    loaded = []

    def make(path, **kwargs):
        options = {
            "skip_tokenizer_init": True,
            "dtype": "float32",
            "max_num_seqs": 16,
            "use_tqdm_on_load": False,
            "platform": "cpu",
            **kwargs,
        }
        llm = LLM(str(path), **options)
        loaded.append(llm)
        return llm

    yield make
    for llm in loaded:
        llm.shutdown()


@pytest.fixture(scope="session")
def greedy():
    """Generate token ids greedily: ``greedy(llm, prompts, n, **params) -> token lists``."""

    def run(llm, prompts, max_tokens, **params):
        own = SamplingParams(temperature=0, max_tokens=max_tokens, **{"ignore_eos": True, **params})
        requests = [{"prompt_token_ids": prompt} for prompt in prompts]
        outputs = llm.generate(requests, own, use_tqdm=False)
        return [output.outputs[0].token_ids for output in outputs]

    return run


@pytest.fixture(scope="session")
def ragged():
    """Prompts of several lengths, the same in every run."""
    generator = torch.Generator().manual_seed(11)
    lengths = (1, 2, 7, 16, 17, 33, 50)
    return [torch.randint(3, 257, (n,), generator=generator).tolist() for n in lengths]
