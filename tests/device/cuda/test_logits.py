"""Logits in bfloat16 against transformers' in float32, in every way that a step is computed."""

import pytest
import torch

from runtime import LLM, SamplingParams

RMS, WORST = 0.03, 0.15
"""Deviations of log-probabilities that are allowed, over the standard deviation of the logits:
their root mean square, and the largest. Eight bits of a number are kept, which is 0.002 of it at
each rounding; some tens of roundings of a layer add up."""
TOKENS = 40
SETTINGS = {
    "graphs": {},
    "eager": {"enforce_eager": True},
    "in small chunks": {"max_num_batched_tokens": 64},
    "eager, in small chunks": {"enforce_eager": True, "max_num_batched_tokens": 64},
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A folder, and transformers' model of it; heads as large as those of real models."""
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=1000,
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=128,
        max_position_embeddings=2048,
        initializer_range=0.05,
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    path = tmp_path_factory.mktemp("llama")
    model.save_pretrained(path)
    return path, model.float().eval()


@pytest.fixture
def load(checkpoint):
    """The engine on the checkpoint in bfloat16."""
    loaded = []

    def make(**settings):
        options = {"max_model_len": 1024, "max_num_seqs": 16, **settings}
        llm = LLM(
            str(checkpoint[0]),
            platform="cuda",
            skip_tokenizer_init=True,
            dtype="bfloat16",
            use_tqdm_on_load=False,
            **options,
        )
        loaded.append(llm)
        return llm

    yield make
    for llm in loaded:
        llm.shutdown()


def prompts(*lengths):
    return [torch.randint(3, 1000, (length,)).tolist() for length in lengths]


def check(llm, model, requests, rms=RMS, worst=WORST):
    """Compare the likeliest tokens of each position with the reference, given the same tokens."""
    params = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True, logprobs=20)
    outputs = llm.generate([{"prompt_token_ids": r} for r in requests], params, use_tqdm=False)
    deviations, spread = [], []
    for request, output in zip(requests, outputs, strict=True):
        tokens = output.outputs[0].token_ids
        ids = torch.tensor([[*request, *tokens]])
        with torch.inference_mode():
            logits = model(ids, use_cache=False).logits[0, len(request) - 1 : -1]
        spread.append(logits.std())
        expected = logits.log_softmax(-1)
        for row, found in zip(expected, output.outputs[0].logprobs, strict=True):
            places = torch.tensor(list(found))
            values = torch.tensor([one.logprob for one in found.values()])
            deviations.append(values - row[places])
    deviation = torch.cat(deviations) / torch.stack(spread).mean()
    assert deviation.square().mean().sqrt() < rms
    assert deviation.abs().max() < worst
    return outputs


@pytest.mark.parametrize("settings", list(SETTINGS))
def test_alone_and_mixed_and_cached(checkpoint, load, settings):
    model = checkpoint[1]
    llm = load(**SETTINGS[settings])
    check(llm, model, prompts(300))
    # Some are decoded while others' prompts are computed: there are more than run at once.
    mixed = prompts(*(1, 5, 700, 16, 33, 129, 250, 64) * 3)
    check(llm, model, mixed)
    again = check(llm, model, mixed)
    assert all(output.num_cached_tokens for output in again if len(output.prompt_token_ids) > 32)


@pytest.mark.parametrize("eager", [False, True])
def test_preempted(checkpoint, load, eager):
    blocks = 13  # Of each prompt of 200 tokens; none is left for what they generate.
    llm = load(
        max_num_seqs=4,
        max_model_len=256,
        num_kv_blocks_override=4 * blocks + 2,
        enforce_eager=eager,
    )
    check(llm, checkpoint[1], prompts(200, 200, 200, 200))
    assert llm.engine.core.scheduler.stats.num_preemptions > 0, "nothing was preempted"


@pytest.mark.parametrize("eager", [False, True])
def test_a_float8_cache(checkpoint, load, eager):
    """Keys and values keep four bits each, which is 0.04 of them at a rounding."""
    llm = load(kv_cache_dtype="fp8", enforce_eager=eager)
    requests = prompts(1, 300, 40, 600)
    check(llm, checkpoint[1], requests, rms=0.1, worst=0.5)
    check(llm, checkpoint[1], requests, rms=0.1, worst=0.5)
