"""Embeddings by tiny random models: encoders and decoders, whole and in chunks."""

import asyncio

import numpy as np
import pytest
import torch

from runtime import LLM, AsyncLLM, PoolingParams, RuntimeUserError, SamplingParams
from runtime.platforms.null.platform import NullPlatform

OPTIONS = {
    "skip_tokenizer_init": True,
    "dtype": "float32",
    "max_num_seqs": 8,
    "use_tqdm_on_load": False,
}


@pytest.fixture(scope="module")
def tiny_bert(tmp_path_factory):
    """A random BERT: odd widths, and weights large enough that a wrong mask shows."""
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=131,
        hidden_size=60,
        intermediate_size=77,
        num_hidden_layers=3,
        num_attention_heads=5,
        max_position_embeddings=64,
        initializer_range=0.4,
    )
    torch.manual_seed(3)
    model = transformers.BertModel(config).float().eval()
    for name, tensor in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(tensor, std=0.3)
    path = tmp_path_factory.mktemp("bert")
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def tiny_roberta(tmp_path_factory):
    """The same of RoBERTa's kind, by the name of the kind."""
    transformers = pytest.importorskip("transformers")

    def make(kind, with_head):
        config = transformers.AutoConfig.for_model(
            kind,
            vocab_size=131,
            hidden_size=60,
            intermediate_size=77,
            num_hidden_layers=2,
            num_attention_heads=5,
            max_position_embeddings=34,
            type_vocab_size=1,
            pad_token_id=1,
            initializer_range=0.4,
        )
        torch.manual_seed(4)
        model = transformers.AutoModelForMaskedLM.from_config(config).float().eval()
        path = tmp_path_factory.mktemp(kind)
        (model if with_head else model.roberta).save_pretrained(path)
        if with_head:
            file = path / "config.json"
            name = type(model.roberta).__name__
            file.write_text(file.read_text().replace(type(model).__name__, name))
        return path

    return make


@pytest.fixture(scope="module")
def hidden_states():
    """``hidden_states(path, prompt) -> [T, hidden]``: transformers' last hidden states."""
    transformers = pytest.importorskip("transformers")
    models = {}

    @torch.inference_mode()
    def compute(path, prompt):
        if path not in models:
            models[path] = transformers.AutoModel.from_pretrained(
                path, dtype=torch.float32, attn_implementation="eager"
            ).eval()
        return models[path](torch.tensor([prompt])).last_hidden_state[0]

    return compute


def prompts_of(lengths, vocab):
    generator = torch.Generator().manual_seed(7)
    return [torch.randint(3, vocab, (n,), generator=generator).tolist() for n in lengths]


def requests(prompts):
    return [{"prompt_token_ids": prompt} for prompt in prompts]


def pooled(states, kind, normalize=True):
    vector = {"MEAN": states.mean(0), "CLS": states[0], "LAST": states[-1]}[kind]
    return torch.nn.functional.normalize(vector, dim=0) if normalize else vector


def embed(llm, prompts, **params):
    outputs = llm.encode(requests(prompts), PoolingParams(**params), use_tqdm=False)
    return [output.outputs.data for output in outputs]


@pytest.mark.parametrize("platform", ["cpu", "null"])
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("kind", ["MEAN", "CLS", "LAST"])
def test_an_encoder_agrees_with_transformers(tiny_bert, hidden_states, platform, ahead, kind):
    """In one batch of all lengths, with more tokens than one step has."""
    prompts = prompts_of((1, 64, 2, 17, 64, 1, 33, 5, 5, 50), 131)
    config = {"pooling_type": kind, "normalize": kind != "LAST"}
    options = {**OPTIONS, "platform": platform, "max_num_batched_tokens": 100}
    options["async_scheduling"] = ahead
    with LLM(str(tiny_bert), pooler_config=config, **options) as llm:
        got = embed(llm, prompts)
        for vector, prompt in zip(got, prompts, strict=True):
            wanted = pooled(hidden_states(tiny_bert, prompt), kind, kind != "LAST")
            torch.testing.assert_close(vector, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["roberta", "xlm-roberta"])
@pytest.mark.parametrize("with_head", [False, True])
def test_positions_that_begin_behind_paddings(tiny_roberta, hidden_states, kind, with_head):
    path = tiny_roberta(kind, with_head)
    prompts = prompts_of((32, 1, 7, 32), 131)
    config = {"pooling_type": "MEAN"}
    with LLM(str(path), platform="cpu", pooler_config=config, **OPTIONS) as llm:
        assert llm.engine.config.model.max_model_len == 32
        for vector, prompt in zip(embed(llm, prompts), prompts, strict=True):
            wanted = pooled(hidden_states(path, prompt), "MEAN")
            torch.testing.assert_close(vector, wanted, rtol=1e-4, atol=1e-5)
        with pytest.raises(RuntimeUserError, match="33 tokens; max_model_len is 32"):
            embed(llm, prompts_of((33,), 131))
    with pytest.raises(RuntimeUserError, match="max_model_len=33 exceeds the 32 positions"):
        LLM(str(path), platform="cpu", max_model_len=33, **OPTIONS)


class Profiled(NullPlatform):
    worker_class = "runtime.core.runner.profiling:ProfilingWorker"


def test_the_largest_step_of_an_encoder_can_be_measured(tiny_bert):
    """What devices size their memory by; here it is asked for, since an encoder has no cache."""
    with LLM(str(tiny_bert), platform=Profiled(), **OPTIONS) as llm:
        worker = llm.engine.core.executor._worker
        assert worker.peak_activation_bytes() > 0
        (got,) = embed(llm, [[5, 9, 11]])
        assert got.isfinite().all()


def test_an_encoder_alone_pools_by_its_first_token(tiny_bert, hidden_states):
    """As vLLM does where no file of sentence-transformers says otherwise."""
    with LLM(str(tiny_bert), platform="cpu", **OPTIONS) as llm:
        assert llm.engine.core.summary == "KV cache: none, since the model is an encoder"
        (got,) = embed(llm, [[5, 9, 11]])
        torch.testing.assert_close(got, pooled(hidden_states(tiny_bert, [5, 9, 11]), "CLS"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"runner": "generate"}, "BertModel gives embeddings only"),
        ({"max_num_batched_tokens": 63}, "must be at least max_model_len=64"),
        ({"max_model_len": 65}, "exceeds the 64 positions"),
        ({"pooler_config": {"pooling_type": "MAX"}}, "pooling_type='MAX' must be one of"),
        ({"pooler_config": {"normalise": True}}, "unknown key 'normalise'; known: pooling_type"),
        ({"pooler_config": {"normalize": 1}}, "normalize=1 must be true or false"),
        ({"runner": "draft"}, "runner='draft' must be one of auto, generate, pooling"),
    ],
)
def test_what_an_encoder_cannot_do_is_refused_before_it_loads(tiny_bert, given, message):
    with pytest.raises(RuntimeUserError, match=message):
        LLM(str(tiny_bert), platform="cpu", **{**OPTIONS, **given})


def test_an_unknown_architecture_lists_encoders_too(tiny_bert):
    from runtime import ModelRegistry

    assert "BertModel" in ModelRegistry.get_supported_archs()


@pytest.mark.parametrize("kind", ["LAST", "MEAN", "CLS"])
@pytest.mark.parametrize("budget", [None, 16])
def test_a_decoder_as_an_embedder(tiny_model, hidden_states, kind, budget):
    """Whole or in chunks of a prompt, and a second time, when its blocks are cached."""
    path = tiny_model("llama")
    prompts = prompts_of((1, 40, 7, 90, 40, 33), 257)
    options = {**OPTIONS, "platform": "cpu", "block_size": 8, "max_num_batched_tokens": budget}
    options["async_scheduling"] = budget is not None
    config = {"pooling_type": kind}
    with LLM(str(path), runner="pooling", pooler_config=config, **options) as llm:
        for turn in range(2):
            outputs = llm.encode(requests(prompts), use_tqdm=False)
            for output, prompt in zip(outputs, prompts, strict=True):
                wanted = pooled(hidden_states(path, prompt), kind)
                torch.testing.assert_close(output.outputs.data, wanted, rtol=1e-4, atol=1e-5)
            cached = [output.num_cached_tokens for output in outputs]
            assert any(cached) == (turn == 1 and kind == "LAST")


@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_the_body_of_a_decoder_by_itself(tiny_model, hidden_states, tmp_path, kind):
    """As embedding models are published: no head, and no ``model.`` before the names."""
    transformers = pytest.importorskip("transformers")
    body = transformers.AutoModel.from_pretrained(tiny_model(kind), dtype=torch.float32)
    body.save_pretrained(tmp_path)
    prompts = prompts_of((3, 20), 257)
    with LLM(str(tmp_path), platform="cpu", **OPTIONS) as llm:
        for got, prompt in zip(embed(llm, prompts), prompts, strict=True):
            wanted = pooled(hidden_states(tmp_path, prompt), "LAST")
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeUserError, match="Model gives embeddings only"):
        LLM(str(tmp_path), platform="cpu", runner="generate", **OPTIONS)


def test_each_token_of_prompts_in_chunks(tiny_model, hidden_states):
    path = tiny_model("llama")
    prompts = prompts_of((5, 60, 1, 31), 257)
    options = {**OPTIONS, "platform": "cpu", "max_num_batched_tokens": 16}
    with LLM(str(path), convert="embed", **options) as llm:
        got = embed(llm, prompts, task="token_embed", normalize=False)
        for rows, prompt in zip(got, prompts, strict=True):
            torch.testing.assert_close(rows, hidden_states(path, prompt), rtol=1e-4, atol=1e-4)


def test_a_model_that_generates_gives_no_embeddings(tiny_model):
    with LLM(str(tiny_model("llama")), platform="cpu", **OPTIONS) as llm:
        with pytest.raises(RuntimeUserError, match="start it with runner='pooling'"):
            embed(llm, [[5, 6]])
        (output,) = llm.generate(
            {"prompt_token_ids": [5, 6]}, SamplingParams(max_tokens=3), use_tqdm=False
        )
        assert len(output.outputs[0].token_ids) == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"convert": "none", "runner": "pooling"}, "convert='none': LlamaForCausalLM generates"),
        ({"convert": "embed", "runner": "generate"}, "convert='embed' needs runner='pooling'"),
        ({"pooler_config": {"normalize": True}}, "pass runner='pooling' to have embeddings"),
    ],
)
def test_contradictions_are_refused(tiny_model, given, message):
    with pytest.raises(RuntimeUserError, match=message):
        LLM(str(tiny_model("llama")), platform="cpu", **OPTIONS, **given)


def test_numbers_that_are_none_end_their_own_request_only(tiny_bert, tmp_path):
    """A token's vector is broken: texts without that token are as they were."""
    from safetensors.torch import load_file, save_file

    state = load_file(tiny_bert / "model.safetensors")
    state["embeddings.word_embeddings.weight"][77] = float("nan")
    save_file(state, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((tiny_bert / "config.json").read_text())
    with LLM(str(tmp_path), platform="cpu", **OPTIONS) as llm:
        bad, good = llm.encode(requests([[5, 77, 6], [5, 6, 7]]), use_tqdm=False)
        assert (bad.finish_reason, bad.outputs.data.numel()) == ("error", 0)
        assert "not all finite" in bad.error
        (alone,) = llm.encode(requests([[5, 6, 7]]), use_tqdm=False)
        assert good.error is None
        torch.testing.assert_close(good.outputs.data, alone.outputs.data)


def test_many_in_a_process_of_its_own_and_some_aborted(tiny_bert):
    prompts = prompts_of(list(range(1, 65)) * 3, 131)

    class Counter:
        finished = ()

        def record_step(self, stats): ...

        def record_prompt(self, num_tokens, time_to_first_token): ...

        def record_tokens(self, count, inter_token_seconds): ...

        def record_finished(self, request):
            self.finished = (*self.finished, request)

    async def one(llm, number, prompt):
        outputs = llm.encode({"prompt_token_ids": prompt}, request_id=str(number))
        (output,) = [output async for output in outputs]
        return output

    async def main(llm):
        counter = Counter()
        llm.stat_loggers.append(counter)
        tasks = [asyncio.create_task(one(llm, n, prompt)) for n, prompt in enumerate(prompts)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        llm.abort("5")
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(results[3], asyncio.CancelledError)
        assert (results[5].finish_reason, results[5].outputs.data.numel()) == ("abort", 0)
        done = [result for number, result in enumerate(results) if number not in (3, 5)]
        assert {result.finish_reason for result in done} == {"stop"}
        assert llm.num_unfinished_requests == 0
        assert len(counter.finished) == len(prompts)
        stopped = [one for one in counter.finished if one.finish_reasons == ("stop",)]
        assert sum(one.num_prompt_tokens for one in stopped) == sum(
            len(prompt) for number, prompt in enumerate(prompts) if number not in (3, 5)
        )
        first = await one(llm, "again", prompts[0])
        assert np.allclose(first.outputs.data, results[0].outputs.data)
        with pytest.raises(RuntimeUserError, match="dimensions"):
            async for _ in llm.encode(requests(prompts[:1])[0], PoolingParams(dimensions=3)):
                pass

    with AsyncLLM(str(tiny_bert), platform="cpu", **OPTIONS) as llm:
        asyncio.run(main(llm))
