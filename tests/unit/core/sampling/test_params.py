"""Every parameter is checked when it is given, and the error names it."""

import math

import msgspec
import pytest

from runtime.core.errors import RequestError
from runtime.core.sampling.params import SamplingParams

BAD = [
    ("n", 0),
    ("n", 1.5),
    ("n", True),
    ("temperature", -0.1),
    ("temperature", math.nan),
    ("temperature", math.inf),
    ("temperature", "hot"),
    ("top_p", 0.0),
    ("top_p", 1.1),
    ("top_k", 0.01),
    ("top_k", -2),
    ("min_p", -0.1),
    ("min_p", 1.5),
    ("seed", 1.0),
    ("seed", 2**64),
    ("presence_penalty", 2.1),
    ("frequency_penalty", -2.1),
    ("repetition_penalty", 0.0),
    ("repetition_penalty", math.inf),
    ("max_tokens", -1),
    ("max_tokens", "8"),
    ("min_tokens", -1),
    ("min_tokens", 17),
    ("stop", [""]),
    ("stop", [3]),
    ("stop_token_ids", [-1]),
    ("stop_token_ids", ["a"]),
    ("bad_words", [""]),
    ("logit_bias", {"AI": -100}),
    ("logit_bias", {-1: 5}),
    ("logit_bias", {1: 1e9}),
    ("logit_bias", {1: "much"}),
    ("logit_bias", {1: math.nan}),
    ("logit_bias", [1, 2]),
    ("allowed_token_ids", []),
    ("allowed_token_ids", [True]),
    ("logprobs", -2),
    ("prompt_logprobs", 1.0),
    ("truncate_prompt_tokens", 0),
    ("truncate_prompt_tokens", -2),
    ("priority", "high"),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_bad_value_is_refused_by_name(name, value):
    with pytest.raises(RequestError) as caught:
        SamplingParams(**{name: value})
    assert caught.value.param == name
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0),
        ("top_k", -1),
        ("top_p", 1e-9),
        ("seed", -5),
        ("max_tokens", None),
        ("max_tokens", 0),
        ("stop", "x"),
        ("stop_token_ids", [10**9]),
        ("logprobs", 0),
        ("logprobs", -1),
        ("truncate_prompt_tokens", -1),
        ("logit_bias", {"7": -100}),
    ],
)
def test_a_value_at_the_edge_is_accepted(name, value):
    SamplingParams(**{name: value})


def test_sequences_are_normalised():
    params = SamplingParams(stop="a", bad_words=["b"], logit_bias={"7": 1})
    assert params.stop == ("a",)
    assert params.bad_words == ("b",)
    assert params.logit_bias == {7: 1.0}


def test_a_temperature_too_small_to_divide_by_is_greedy():
    assert SamplingParams(temperature=1e-9).greedy
    assert not SamplingParams(temperature=1e-3).greedy


def test_stop_strings_need_text():
    with pytest.raises(RequestError, match="detokenize"):
        SamplingParams(stop="x", detokenize=False)


def test_parameters_cross_a_process_boundary():
    params = SamplingParams(stop=["a"], logit_bias={3: -1.5}, seed=9, allowed_token_ids=[1, 2])
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(params), type=SamplingParams)
    assert sent == params


def test_parameters_are_read_only():
    with pytest.raises(AttributeError):
        SamplingParams().temperature = 2.0


def test_defaults_come_from_the_generation_config_and_the_user_wins():
    generation = {"temperature": 0.6, "top_p": 0.9, "eos_token_id": 2, "top_k": None}
    params = SamplingParams.from_generation_config(generation, top_p=0.5)
    assert (params.temperature, params.top_p, params.top_k) == (0.6, 0.5, 0)
