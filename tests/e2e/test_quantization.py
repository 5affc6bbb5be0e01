"""Weights kept as blocks: the text, the memory, and what quantising while loading gives."""

import pytest
import torch

from runtime import LLM, SamplingParams
from runtime.core.errors import ConfigError
from runtime.platforms.cpu.kernels import why_missing

NEAR_TIE = 0.25
"""Logit gap that rounding each layer's input to eight bits can close in this model."""
QUESTIONS = [
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "Explain photosynthesis briefly.",
    "How do I boil an egg?",
    "Write a haiku about winter.",
]


def answers(path, quantization):
    params = SamplingParams(temperature=0, max_tokens=64, logprobs=20, ignore_eos=True)
    conversations = [[{"role": "user", "content": question}] for question in QUESTIONS]
    options = {"max_model_len": 512, "use_tqdm_on_load": False, "platform": "cpu"}
    with LLM(str(path), quantization=quantization, **options) as llm:
        model = llm.engine.core.executor._worker.runner.model
        size = sum(parameter.nbytes for parameter in model.parameters())
        outputs = llm.chat(conversations, params, use_tqdm=False)
        return [output.outputs[0] for output in outputs], size


@pytest.mark.weights
@pytest.mark.xdist_group("smollm2")
def test_the_blocks_of_a_file_say_what_their_values_say(smollm2_path):
    """Greedy text is the same for 64 tokens, or parts where two tokens were almost as good."""
    dense, dense_size = answers(smollm2_path, "none")
    blocks, size = answers(smollm2_path, "gguf")
    assert size < 0.2 * dense_size
    for question, wanted, got in zip(QUESTIONS, dense, blocks, strict=True):
        pairs = zip(wanted.token_ids, got.token_ids, strict=True)
        place = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        if place is None:
            continue
        own, other = wanted.token_ids[place], got.token_ids[place]
        values = wanted.logprobs[place]
        assert other in values, f"{question}: token {place}"
        gap = values[own].logprob - values[other].logprob
        assert gap < NEAR_TIE, f"{question}: token {place} has a gap of {gap:.2f}"


@pytest.mark.parametrize("quantization", ["int8", "q8_0"])
def test_eight_bits_of_a_plain_checkpoint_change_logits_little(
    tiny_model, load, ragged, quantization
):
    path = tiny_model("llama", hidden_size=64, intermediate_size=96)
    params = SamplingParams(temperature=0, max_tokens=1, logprobs=-1)
    requests = [{"prompt_token_ids": prompt} for prompt in ragged]
    values = []
    for asked in (None, quantization):
        llm = load(path, quantization=asked, max_logprobs=-1)
        outputs = llm.generate(requests, params, use_tqdm=False)
        rows = [sorted(output.outputs[0].logprobs[0].items()) for output in outputs]
        values.append(torch.tensor([[value.logprob for _, value in row] for row in rows]))
    for pair in zip(*values, strict=True):
        assert torch.corrcoef(torch.stack(pair))[0, 1] > 0.97


@pytest.mark.skipif(why_missing() is not None, reason="the kernels are not installed")
def test_batched_alone_and_cached_give_the_same_tokens(tiny_model, load, greedy, ragged):
    path = tiny_model("llama", hidden_size=64, intermediate_size=96)
    llm = load(path, quantization="q4_0", enable_prefix_caching=True)
    together = greedy(llm, ragged, 12)
    assert [greedy(llm, [prompt], 12)[0] for prompt in ragged] == together


def test_a_platform_without_kernels_computes_with_blocks_by_the_reference(
    tiny_model, load, greedy, ragged
):
    path = tiny_model("llama", hidden_size=64, intermediate_size=96)
    for prompt_tokens in greedy(load(path, platform="null", quantization="q8_0"), ragged[:2], 4):
        assert len(prompt_tokens) == 4


def test_blocks_that_a_directory_does_not_have_are_refused(tiny_model, load):
    with pytest.raises(ConfigError, match="has no quantized blocks; choose one of int8"):
        load(tiny_model("llama"), quantization="gguf")


@pytest.mark.skipif(why_missing() is not None, reason="the kernels are not installed")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_cache_of_bytes_is_smaller_and_changes_logits_little(tiny_model, load, ragged, dtype):
    path = tiny_model("llama", hidden_size=64, intermediate_size=96)
    params = SamplingParams(temperature=0, max_tokens=1, logprobs=-1)
    requests = [{"prompt_token_ids": prompt} for prompt in ragged]
    values, block_bytes = [], []
    for cache in ("auto", "int8"):
        llm = load(path, kv_cache_dtype=cache, dtype=dtype, max_logprobs=-1, platform="cpu")
        outputs = llm.generate(requests, params, use_tqdm=False)
        rows = [sorted(output.outputs[0].logprobs[0].items()) for output in outputs]
        values.append(torch.tensor([[value.logprob for _, value in row] for row in rows]))
        block_bytes.append(llm.engine.core.executor._worker.runner.layout.groups[0].block_bytes)
    assert block_bytes[1] < block_bytes[0]
    for pair in zip(*values, strict=True):
        assert torch.corrcoef(torch.stack(pair))[0, 1] > 0.99
