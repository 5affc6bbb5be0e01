"""What is refused before it reaches the engine, and how prompts become tokens."""

from types import SimpleNamespace

import pytest

from runtime.core.config.hf_config import HFConfig
from runtime.core.engine.input_processor import InputProcessor
from runtime.core.errors import RequestError
from runtime.core.sampling.params import SamplingParams


class Letters:
    """A tokenizer whose tokens are letters: a is 10."""

    eos_token_id = 2

    def encode(self, text, *, add_special_tokens=True):
        return ([1] if add_special_tokens else []) + [ord(c) - 87 for c in text if c.isalpha()]


@pytest.fixture
def processor():
    def make(tokenizer=None, max_model_len=16, fits=lambda total, step: True, generation=None):
        model = SimpleNamespace(
            hf=HFConfig({"eos_token_id": 3}),
            architecture="LlamaForCausalLM",
            pooling=None,
            generation=HFConfig(generation or {}),
            vocab_size=40,
            max_model_len=max_model_len,
            max_logprobs=20,
        )
        scheduler = SimpleNamespace(max_num_batched_tokens=8)
        config = SimpleNamespace(model=model, scheduler=scheduler)
        return InputProcessor(config, tokenizer, fits)

    return make


BAD_PROMPTS = [
    ("", "prompt"),
    ("123", "prompt"),
    (5, "prompt"),
    (None, "prompt"),
    ([1, 2], "prompt"),
    ({"prompt_token_ids": []}, "prompt_token_ids"),
    ({"prompt_token_ids": "abc"}, "prompt_token_ids"),
    ({"prompt_token_ids": [-1]}, "prompt_token_ids"),
    ({"prompt_token_ids": [40]}, "prompt_token_ids"),
    ({"prompt_token_ids": [2**31]}, "prompt_token_ids"),
    ({"prompt_token_ids": [1.5]}, "prompt_token_ids"),
    ({"prompt_token_ids": [True]}, "prompt_token_ids"),
    ({"prompt_token_ids": [1] * 16}, "prompt"),
    ({"prompt_token_ids": [1] * 17}, "prompt"),
    ({"prompt_token_ids": [1], "colour": 1}, "prompt"),
    ({"prompt_token_ids": [1], "cache_salt": ""}, "cache_salt"),
]


class NoSpecial(Letters):
    def encode(self, text, *, add_special_tokens=True):
        return super().encode(text, add_special_tokens=False)


@pytest.mark.parametrize(("prompt", "param"), BAD_PROMPTS)
def test_a_bad_prompt_is_refused(processor, prompt, param):
    with pytest.raises(RequestError) as caught:
        processor(NoSpecial()).process("r", prompt, SamplingParams())
    assert caught.value.param == param
    assert param.split("_")[0] in str(caught.value)


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"logit_bias": {40: 1.0}}, "logit_bias"),
        ({"stop_token_ids": [10**9], "min_tokens": 1}, "stop_token_ids"),
        ({"allowed_token_ids": [40]}, "allowed_token_ids"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": -1}, "logprobs"),
        ({"prompt_logprobs": 21}, "prompt_logprobs"),
        ({"min_tokens": 14, "max_tokens": 20}, "min_tokens"),
        ({"truncate_prompt_tokens": 16}, "truncate_prompt_tokens"),
        ({"logits_processors": ["nope"]}, "logits_processors"),
    ],
)
def test_parameters_that_the_model_cannot_serve_are_refused(processor, given, param):
    with pytest.raises(RequestError) as caught:
        processor(Letters()).process("r", {"prompt_token_ids": [1] * 3}, SamplingParams(**given))
    assert caught.value.param == param


def test_text_needs_a_tokenizer(processor):
    with pytest.raises(RequestError, match="skip_tokenizer_init"):
        processor().process("r", "abc", SamplingParams())
    with pytest.raises(RequestError, match="stop needs a tokenizer"):
        processor().process("r", {"prompt_token_ids": [1]}, SamplingParams(stop="x"))


def test_a_request_that_can_never_fit_is_refused(processor):
    with pytest.raises(RequestError, match="9 tokens do not fit"):
        processor(fits=lambda total, step: total < 9).process(
            "r", {"prompt_token_ids": [1] * 5}, SamplingParams(max_tokens=4)
        )


def test_the_last_tokens_are_kept(processor):
    prompt = {"prompt_token_ids": list(range(5, 30))}
    for keep, expected in ((4, [26, 27, 28, 29]), (-1, list(range(15, 30)))):
        params = SamplingParams(truncate_prompt_tokens=keep)
        request, _ = processor().process("r", prompt, params)
        assert request.prompt_token_ids == expected


def test_max_tokens_zero_leaves_the_whole_context_to_the_prompt(processor):
    prompt = {"prompt_token_ids": [1] * 16}
    request, _ = processor().process("r", prompt, SamplingParams(max_tokens=0))
    assert len(request.prompt_token_ids) == 16


def test_all_end_of_sequence_tokens_count(processor):
    request, text = processor(Letters(), generation={"eos_token_id": [2, 5, 99]}).process(
        "r", "abc", SamplingParams()
    )
    assert request.eos_token_ids == [2, 5]
    assert text == "abc"
    assert request.prompt_token_ids == [1, 10, 11, 12]
    assert processor().eos_token_ids == [3]


def test_bad_words_are_tokenised_alone_and_after_a_space(processor):
    params = SamplingParams(bad_words=["ab", "c"])
    request, _ = processor(Letters()).process("r", "abc", params)
    assert request.bad_words_token_ids == [[10, 11], [12]]
