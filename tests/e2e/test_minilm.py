"""A real embedding model, all-MiniLM-L6-v2, beside transformers in float32."""

import asyncio
import json
import shutil

import pytest
import torch

from runtime import LLM, AsyncLLM, PoolingParams, RuntimeUserError

pytestmark = [pytest.mark.weights, pytest.mark.xdist_group("minilm")]

TEXTS = [
    "Hello world",
    "x",
    "A man is eating food. " * 3,
    "Der Hund läuft über die grüne Wiese; 你好，世界! 🎉",
    "the quick brown fox jumps over the lazy dog " * 20,
    "A woman is playing the violin.",
    "WHITESPACE \n\t and   Capitals",
]
LONG = "the sea was calm and the sky was wide " * 40
"""More than 300 tokens."""
QUIET = {"use_tqdm_on_load": False, "platform": "cpu"}


@pytest.fixture(scope="module")
def llm(minilm_path):
    with LLM(str(minilm_path), **QUIET) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def expected(minilm_path):
    """``expected(text, max_length=256) -> [384]``: BertModel, mean over the tokens, length 1."""
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm_path)
    model = transformers.BertModel.from_pretrained(minilm_path, dtype=torch.float32).eval()

    @torch.inference_mode()
    def embed(text, max_length=256):
        inputs = tokenizer(text, truncation=True, max_length=max_length, return_tensors="pt")
        mean = model(**inputs).last_hidden_state[0].mean(0)
        return torch.nn.functional.normalize(mean, dim=0)

    return embed


def vectors(outputs):
    return torch.tensor([output.outputs.embedding for output in outputs])


def check(got, wanted):
    """Cosine and mean deviation, far below what would change a search's result."""
    assert got.shape == wanted.shape
    assert torch.nn.functional.cosine_similarity(got, wanted, dim=-1).min() > 0.999999
    assert (got - wanted).abs().mean() < 1e-6


def test_each_text_alone(llm, expected):
    for text in TEXTS:
        (output,) = llm.embed(text, use_tqdm=False)
        assert len(output.outputs.embedding) == 384
        check(vectors([output])[0], expected(text))


def test_texts_of_all_lengths_in_one_batch(llm, expected):
    outputs = llm.embed(TEXTS, use_tqdm=False)
    check(vectors(outputs), torch.stack([expected(text) for text in TEXTS]))


def test_a_batch_that_takes_several_steps(llm, expected):
    """More tokens than a step has, and more texts than run at once."""
    texts = [f"{text} {number}" for number in range(40) for text in TEXTS]
    outputs = llm.embed(texts, use_tqdm=False)
    for index in range(0, len(texts), 23):
        check(vectors(outputs[index : index + 1])[0], expected(texts[index]))
    again = llm.embed(texts[::-1], use_tqdm=False)[::-1]
    assert (vectors(outputs) - vectors(again)).abs().max() < 1e-6


@pytest.mark.parametrize("keep", [-1, 128, 256, 3])
def test_a_long_text_is_cut_as_the_library_cuts_it(llm, expected, keep):
    """At the declared 256 tokens, or where asked; special tokens stay at both ends."""
    (output,) = llm.embed(LONG, truncate_prompt_tokens=keep, use_tqdm=False)
    length = 256 if keep == -1 else keep
    ids = output.prompt_token_ids
    assert (len(ids), ids[0], ids[-1]) == (length, 101, 102)
    check(vectors([output])[0], expected(LONG, length))


def test_a_long_text_is_refused_otherwise(llm):
    with pytest.raises(RuntimeUserError, match=r"prompt has \d+ tokens; max_model_len is 256"):
        llm.embed(["short", LONG], use_tqdm=False)
    with pytest.raises(RuntimeUserError, match="truncate_prompt_tokens=513 exceeds the 256"):
        llm.embed(LONG, truncate_prompt_tokens=513, use_tqdm=False)
    assert not llm.engine.has_unfinished_requests


def test_token_ids_are_the_same_as_their_text(llm):
    (by_text,) = llm.embed("A woman is playing the violin.", use_tqdm=False)
    (by_ids,) = llm.embed({"prompt_token_ids": by_text.prompt_token_ids}, use_tqdm=False)
    assert by_ids.outputs.embedding == by_text.outputs.embedding


def test_a_vector_for_each_token_of_two_prompts(llm):
    """Lengths differ: one matrix each, as long as its own prompt."""
    params = PoolingParams(normalize=False)
    both = llm.encode(TEXTS[:3], params, pooling_task="token_embed", use_tqdm=False)
    whole = llm.encode(TEXTS[:3], params, use_tqdm=False)
    for tokens, one in zip(both, whole, strict=True):
        assert tokens.outputs.data.shape == (len(tokens.prompt_token_ids), 384)
        torch.testing.assert_close(tokens.outputs.data.mean(0), one.outputs.data)


def test_dimensions_are_refused_where_the_model_was_not_trained_for_them(llm):
    with pytest.raises(RuntimeUserError, match="dimensions=64: .*384 elements.*cannot be cut"):
        llm.embed("x", pooling_params=PoolingParams(dimensions=64), use_tqdm=False)
    (whole,) = llm.embed("x", pooling_params=PoolingParams(dimensions=384), use_tqdm=False)
    assert len(whole.outputs.embedding) == 384


def test_dimensions_are_cut_and_then_normalised(minilm_path, tmp_path, expected):
    folder = shutil.copytree(minilm_path, tmp_path / "matryoshka")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "matryoshka_dimensions": [64, 128]}))
    with LLM(str(folder), **QUIET) as own:
        params = [PoolingParams(dimensions=64), PoolingParams(), PoolingParams(dimensions=128)]
        outputs = own.embed(["Hello world"] * 3, pooling_params=params, use_tqdm=False)
        for output, size in zip(outputs, (64, 384, 128), strict=True):
            cut = torch.nn.functional.normalize(expected("Hello world")[:size], dim=0)
            check(vectors([output])[0], cut)
        with pytest.raises(RuntimeUserError, match="dimensions=65: must be one of 64, 128, 384"):
            own.embed("x", pooling_params=PoolingParams(dimensions=65), use_tqdm=False)


def test_it_generates_nothing(llm):
    with pytest.raises(RuntimeUserError, match="pools BertModel.*generates no text"):
        llm.generate("Hello", use_tqdm=False)
    with pytest.raises(RuntimeUserError, match="generates no text"):
        llm.chat([{"role": "user", "content": "Hello"}], use_tqdm=False)


@pytest.mark.parametrize(
    ("given", "least"),
    [
        ({"dtype": "bfloat16"}, 0.999),
        ({"quantization": "int8"}, 0.98),
        ({"quantization": "q8_0"}, 0.995),
    ],
)
def test_fewer_bits_change_little(minilm_path, expected, given, least):
    with LLM(str(minilm_path), **QUIET, **given) as own:
        got = vectors(own.embed(TEXTS, use_tqdm=False))
        wanted = torch.stack([expected(text) for text in TEXTS])
        assert torch.nn.functional.cosine_similarity(got, wanted, dim=-1).min() > least


def test_in_a_process_of_its_own(minilm_path, expected):
    async def embed(llm, text):
        outputs = [output async for output in llm.encode(text)]
        assert len(outputs) == 1
        return outputs[0]

    async def main(llm):
        outputs = await asyncio.gather(*(embed(llm, text) for text in TEXTS))
        got = torch.stack([output.outputs.data for output in outputs])
        check(got, torch.stack([expected(text) for text in TEXTS]))
        with pytest.raises(RuntimeUserError, match="generates no text"):
            [output async for output in llm.generate("Hello")]
        with pytest.raises(RuntimeUserError, match="max_model_len is 256"):
            await embed(llm, LONG)
        assert llm.num_unfinished_requests == 0

    with AsyncLLM(str(minilm_path), **QUIET) as llm:
        asyncio.run(main(llm))
