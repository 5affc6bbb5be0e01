"""BERT: the names of its tensors, and the configurations that it refuses."""

import pytest

from runtime.core.errors import ModelLoadError
from runtime.core.platform.select import select_platform

HF = {
    "vocab_size": 40,
    "hidden_size": 24,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
}


@pytest.fixture
def bert(driver):
    platform = select_platform("null").platform

    def make(**changes):
        return driver(platform, "BertModel", {**HF, **changes})

    return make


def published(prefix="", names=("weight", "bias")):
    """The names in a checkpoint of a whole BERT, heads included."""
    weight, bias = names
    found = [
        f"{prefix}embeddings.{table}_embeddings.weight"
        for table in ("word", "position", "token_type")
    ]
    norms = ["embeddings.LayerNorm"]
    for layer in range(2):
        at = f"encoder.layer.{layer}"
        norms += [f"{at}.attention.output.LayerNorm", f"{at}.output.LayerNorm"]
        dense = [f"attention.self.{name}" for name in ("query", "key", "value")]
        dense += ["attention.output.dense", "intermediate.dense", "output.dense"]
        found += [f"{prefix}{at}.{name}.{kind}" for name in dense for kind in ("weight", "bias")]
    found += [f"{prefix}{norm}.{kind}" for norm in norms for kind in (weight, bias)]
    heads = ["pooler.dense.weight", "pooler.dense.bias", "embeddings.position_ids"]
    found += [prefix + name for name in heads]
    return [*found, "cls.predictions.bias", "cls.seq_relationship.weight"]


@pytest.mark.parametrize("prefix", ["", "bert."])
@pytest.mark.parametrize("names", [("weight", "bias"), ("gamma", "beta")])
def test_the_names_of_all_ages_are_the_models_own(bert, prefix, names):
    made = bert()
    renamed = [made.model.checkpoint_name(name) for name in published(prefix, names)]
    wanted = [name for name in renamed if name is not None]
    assert len(renamed) - len(wanted) == 5
    assert sorted(wanted) == sorted(made.checkpoint_tensors())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key'"),
        ({"is_decoder": True}, "is_decoder=true"),
        ({"hidden_act": "relu"}, "hidden_act='relu' is not supported"),
        ({"num_attention_heads": 5}, "hidden_size=24 is not a multiple of num_attention_heads=5"),
        ({"intermediate_size": None}, "lacks 'intermediate_size'"),
    ],
)
def test_what_it_would_compute_wrongly_is_refused(bert, changes, message):
    with pytest.raises(ModelLoadError, match=message):
        bert(**changes)
