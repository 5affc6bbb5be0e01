"""A Mistral config is completed as transformers completes it."""

import pytest

from runtime.core.config.hf_config import HFConfig
from runtime.core.models.mistral import MistralForCausalLM

transformers = pytest.importorskip("transformers")

GIVEN = [
    {},
    {"num_key_value_heads": 4, "sliding_window": 128},
    {"sliding_window": None},
]


@pytest.mark.parametrize("values", GIVEN, ids=str)
def test_defaults_are_transformers(values):
    ours = MistralForCausalLM.read_config(HFConfig(values))
    theirs = transformers.MistralConfig(**values)
    assert ours.get("sliding_window") == theirs.sliding_window
    assert ours.num_key_value_heads == theirs.num_key_value_heads


def test_there_are_no_biases_whatever_the_file_says():
    ours = MistralForCausalLM.read_config(HFConfig({"attention_bias": True, "mlp_bias": True}))
    assert (ours.attention_bias, ours.mlp_bias) == (False, False)
