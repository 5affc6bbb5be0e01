"""SmolLM2-135M from its GGUF file: the same tokens as transformers, in any company."""

import itertools
import json
import os
import subprocess
import sys

import pytest
import torch

from runtime import LLM, SamplingParams
from runtime.core.sampling.params import OutputKind
from runtime.core.sampling.processors import LogitsProcessor
from runtime.core.sampling.registry import register_logits_processor

pytestmark = [pytest.mark.weights, pytest.mark.xdist_group("smollm2")]

QUESTIONS = [
    "What is the capital of France?",
    "Write a haiku about rivers.",
    "Explain in two sentences why the sky is blue.",
]
NEW_TOKENS = 64
# The values that transformers dequantises; tests/e2e/test_quantization.py has the blocks.
DENSE = {"quantization": "none", "max_num_seqs": 8, "use_tqdm_on_load": False}


@pytest.fixture(scope="module")
def llm(smollm2_path):
    with LLM(str(smollm2_path), dtype="float32", **DENSE) as llm:
        yield llm


@pytest.fixture(scope="module")
def conversations():
    return [[{"role": "user", "content": question}] for question in QUESTIONS]


@pytest.fixture(scope="module")
def expected(smollm2_path, conversations):
    """What transformers makes of the same file."""
    transformers = pytest.importorskip("transformers")
    folder, name = smollm2_path.parent, smollm2_path.name
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, dtype=torch.float32
    ).eval()
    results = []
    for messages in conversations:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
        with torch.inference_mode():
            out = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=NEW_TOKENS,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.eos_token_id,
            )
        new = out[0, ids.shape[1] :].tolist()
        results.append((ids[0].tolist(), new, tokenizer.decode(new, skip_special_tokens=True)))
    return results


def test_chat_equals_transformers_batched_and_alone(llm, conversations, expected):
    params = SamplingParams(temperature=0, max_tokens=NEW_TOKENS)
    together = llm.chat(conversations, params, use_tqdm=False)
    for output, messages, (prompt, tokens, text) in zip(
        together, conversations, expected, strict=True
    ):
        assert output.prompt_token_ids == prompt
        assert output.outputs[0].token_ids == tokens
        assert output.outputs[0].text == text
        alone = llm.chat(messages, params, use_tqdm=False)[0]
        assert alone.outputs[0].token_ids == tokens


def test_a_stream_joins_to_the_whole_text(llm, conversations):
    params = SamplingParams(temperature=0, max_tokens=40)
    whole = llm.chat(conversations[1], params, use_tqdm=False)[0].outputs[0]
    seen = [output.outputs[0].text for output in llm.stream_chat(conversations[1], params)]
    assert seen[-1] == whole.text
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(seen))
    delta = SamplingParams(temperature=0, max_tokens=40, output_kind=OutputKind.DELTA)
    parts = [output.outputs[0] for output in llm.stream_chat(conversations[1], delta)]
    assert "".join(part.text for part in parts) == whole.text
    assert [t for part in parts for t in part.token_ids] == whole.token_ids


def test_streams_run_side_by_side_and_closing_one_frees_it(llm, conversations):
    params = SamplingParams(temperature=0, max_tokens=20, ignore_eos=True)
    expected = [llm.chat(c, params, use_tqdm=False)[0].outputs[0].text for c in conversations[:2]]
    first, second = (llm.stream_chat(c, params) for c in conversations[:2])
    abandoned = llm.stream_chat(conversations[2], params)
    next(abandoned)
    abandoned.close()
    texts = [(a.outputs[0].text, b.outputs[0].text) for a, b in zip(first, second, strict=True)]
    assert list(texts[-1]) == expected
    assert not llm.engine.has_unfinished_requests
    assert llm.engine.core.scheduler.kv_cache.usage == 0.0


def test_stop_strings(llm):
    base = {"temperature": 0, "max_tokens": 40}
    prompt = "The first three planets are"
    plain = llm.generate(prompt, SamplingParams(**base), use_tqdm=False)[0].outputs[0]
    word = plain.text.split()[3]
    cut = llm.generate(prompt, SamplingParams(**base, stop=[word]), use_tqdm=False)[0].outputs[0]
    assert cut.finish_reason == "stop"
    assert cut.stop_reason == word
    assert cut.text == plain.text[: plain.text.index(word)]
    params = SamplingParams(**base, stop=word, include_stop_str_in_output=True)
    kept = llm.generate(prompt, params, use_tqdm=False)[0].outputs[0]
    assert kept.text == cut.text + word
    params = SamplingParams(**base, stop=word, min_tokens=20)
    late = llm.generate(prompt, params, use_tqdm=False)[0].outputs[0]
    assert len(late.token_ids) >= 20
    params = SamplingParams(**base, stop=word, output_kind=OutputKind.DELTA)
    streamed = "".join(o.outputs[0].text for o in llm.stream(prompt, params))
    assert streamed == cut.text


@register_logits_processor
class ForceTokens(LogitsProcessor):
    """Makes a request say the tokens in ``extra_args["force"]``, one after the other."""

    name = "test_force_tokens"

    def apply(self, logits, batch):
        for row in batch.rows(lambda params: self.name in params.logits_processors):
            state = batch.states[row]
            token = state.params.extra_args["force"][state.num_output_tokens]
            logits[row].fill_(-torch.inf)
            logits[row, token] = 0.0


@pytest.mark.parametrize("text", ["A 世界!", "한국어 텍스트", "x 👩‍👩‍👧 y", "naïve \n\n  café"])
def test_text_cut_anywhere_reads_the_same_streamed_and_whole(llm, text):
    tokens = llm.get_tokenizer().encode(text, add_special_tokens=False)
    for count in range(1, len(tokens) + 1):
        params = {
            "logits_processors": [ForceTokens.name],
            "extra_args": {"force": tokens},
            "max_tokens": count,
        }
        whole = llm.generate("Say:", SamplingParams(**params), use_tqdm=False)[0].outputs[0]
        assert whole.token_ids == tokens[:count]
        assert whole.text == llm.get_tokenizer().decode(tokens[:count])
        delta = SamplingParams(**params, output_kind=OutputKind.DELTA)
        parts = [output.outputs[0].text for output in llm.stream("Say:", delta)]
        assert "".join(parts) == whole.text
        assert not any("\ufffd" in part for part in parts[:-1])


def test_bad_words_do_not_appear(llm, conversations):
    params = SamplingParams(temperature=0, max_tokens=12)
    plain = llm.chat(conversations[0], params, use_tqdm=False)[0].outputs[0].text
    assert "Paris" in plain
    params = SamplingParams(temperature=0, max_tokens=12, bad_words=["Paris"])
    assert "Paris" not in llm.chat(conversations[0], params, use_tqdm=False)[0].outputs[0].text


def test_the_command_line_generates(smollm2_path, run_runtime, expected):
    done = run_runtime(
        "generate",
        smollm2_path,
        *("--prompt", QUESTIONS[0], "--chat", "--json", "--temperature", 0, "--max-tokens", 8),
        *("--quantization", "none"),
    )
    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout)
    assert line["outputs"][0]["token_ids"] == expected[0][1][:8]
    assert line["outputs"][0]["text"] == "The capital of France is Paris."
    assert "platform cpu" in done.stderr
    assert "Loading weights" in done.stderr


def test_the_command_line_chats(smollm2_path, run_runtime):
    done = run_runtime(
        *("chat", "--model", smollm2_path, "--temperature", 0, "--max-tokens", 10),
        *("--quantization", "none"),
        stdin=f"{QUESTIONS[0]}\n/reset\n{QUESTIONS[0]}\n/exit\nnever read\n",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["The capital of France is Paris."] * 2


MEASURE = """
import sys, torch, resource
from runtime.core.platform.select import select_platform
import runtime.core.engine.llm_engine, gguf, safetensors, tokenizers, tqdm
platform = select_platform("cpu").platform
platform.memory.reset_peak()
before = platform.memory.peak()
from runtime import LLM
options = {"quantization": "none", "use_tqdm_on_load": False, "max_num_seqs": 2}
llm = LLM(sys.argv[1], dtype=sys.argv[2], **options)
weights = sum(p.nbytes for p in llm.engine.core.executor._worker.runner.model.parameters())
print((platform.memory.peak() - before) / weights)
"""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_loading_takes_little_more_memory_than_the_weights(smollm2_path, dtype):
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(smollm2_path), dtype],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    # Packing keeps a layer twice for a moment, and narrow dtypes are dequantised in float32.
    assert float(done.stdout) < 1.7
