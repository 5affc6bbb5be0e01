"""Whether an engine pools, and how."""

import json
from types import SimpleNamespace

import pytest

from runtime.core.config.args import EngineArgs
from runtime.core.config.hf_config import HFConfig
from runtime.core.errors import ConfigError
from runtime.core.models.registry import ModelRegistry
from runtime.core.pooling.config import resolve_pooling
from runtime.core.pooling.params import PoolingType


@pytest.fixture
def resolved(tmp_path):
    """``resolved(architecture, files, hf, **arguments) -> PoolingConfig | None``."""

    def resolve(architecture, files=None, hf=(), **given):
        for name, values in (files or {}).items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(values))
        checkpoint = SimpleNamespace(path=tmp_path, config=HFConfig({"hidden_size": 8, **dict(hf)}))
        args = EngineArgs(model="m", **given)
        return resolve_pooling(args, checkpoint, ModelRegistry.load(architecture))

    return resolve


FILES = {
    "modules.json": [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ],
    "1_Pooling/config.json": {"pooling_mode_mean_tokens": True},
    "sentence_bert_config.json": {"max_seq_length": 5},
}


def test_a_decoder_generates_unless_it_is_told_to_pool(resolved):
    assert resolved("LlamaForCausalLM") is None
    assert resolved("LlamaForCausalLM", convert="none") is None
    for given in ({"runner": "pooling"}, {"convert": "embed"}):
        config = resolved("LlamaForCausalLM", **given)
        assert (config.type, config.normalize, config.encoder) == (PoolingType.LAST, True, False)


def test_a_decoder_with_the_files_of_the_library_pools_as_they_say(resolved):
    config = resolved("LlamaForCausalLM", FILES)
    assert (config.type, config.normalize) == (PoolingType.MEAN, False)
    assert resolved("LlamaForCausalLM", runner="generate") is None


def test_what_cannot_generate_pools(resolved):
    assert resolved("BertModel").type is PoolingType.CLS
    assert resolved("BertModel").encoder
    assert resolved("LlamaModel").type is PoolingType.LAST
    assert not resolved("LlamaModel").encoder
    with pytest.raises(ConfigError, match="LlamaModel gives embeddings only"):
        resolved("LlamaModel", runner="generate")


def test_a_decoder_that_sees_what_follows_is_refused(resolved):
    with pytest.raises(ConfigError, match="attends in both directions"):
        resolved("LlamaModel", hf={"is_causal": False})
    assert resolved("LlamaModel", hf={"is_causal": True}).type is PoolingType.LAST


def test_the_user_has_the_last_word(resolved):
    own = {"pooling_type": "last", "normalize": True}
    config = resolved("BertModel", FILES, pooler_config=own)
    assert (config.type, config.normalize, config.max_seq_length) == (PoolingType.LAST, True, 5)


@pytest.mark.parametrize(
    ("hf", "sizes"),
    [
        ({}, None),
        ({"is_matryoshka": False}, None),
        ({"is_matryoshka": True}, ()),
        ({"matryoshka_dimensions": [4, 2]}, (2, 4)),
    ],
)
def test_what_embeddings_may_be_cut_to(resolved, hf, sizes):
    assert resolved("BertModel", hf=hf).matryoshka == sizes
