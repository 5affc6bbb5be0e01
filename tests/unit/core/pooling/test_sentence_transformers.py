"""What the files of sentence-transformers say, in the forms that its versions wrote."""

import json

import pytest

from runtime.core.errors import ModelLoadError
from runtime.core.pooling.params import PoolingType
from runtime.core.pooling.sentence_transformers import read_sentence_transformers

OLD = "sentence_transformers.models."
NEW = {
    "Transformer": "sentence_transformers.base.modules.transformer.Transformer",
    "Pooling": "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    "Normalize": "sentence_transformers.base.modules.normalize.Normalize",
}


@pytest.fixture
def directory(tmp_path):
    """``directory(pooling, names, **files) -> path``; names may be longer than classes' are."""

    def make(pooling, names=("Transformer", "Pooling"), **files):
        modules = [
            {"idx": index, "name": str(index), "path": "" if index == 0 else f"{index}_{name}"}
            | {"type": name if "." in name else OLD + name}
            for index, name in enumerate(names)
        ]
        (tmp_path / "modules.json").write_text(json.dumps(modules))
        for index, name in enumerate(names):
            if name.endswith("Pooling") and pooling is not None:
                folder = tmp_path / f"{index}_{name}"
                folder.mkdir()
                (folder / "config.json").write_text(
                    pooling if isinstance(pooling, str) else json.dumps(pooling)
                )
        for name, values in files.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(values))
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("pooling", "kind"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, PoolingType.MEAN),
        ({"pooling_mode_cls_token": True, "word_embedding_dimension": 8}, PoolingType.CLS),
        ({"pooling_mode_lasttoken": True, "include_prompt": True}, PoolingType.LAST),
        ({"pooling_mode": "mean", "embedding_dimension": 8}, PoolingType.MEAN),
        ({"pooling_mode": "lasttoken"}, PoolingType.LAST),
        ({"pooling_mode": ["cls"]}, PoolingType.CLS),
    ],
)
def test_the_pooling_of_old_and_new_files(directory, pooling, kind):
    found = read_sentence_transformers(directory(pooling))
    assert (found.pooling, found.normalize, found.max_seq_length) == (kind, False, None)


def test_a_module_that_normalises(directory):
    names = ("Transformer", "Pooling", "Normalize")
    assert read_sentence_transformers(directory({"pooling_mode": "mean"}, names)).normalize


def test_modules_by_the_names_of_newer_versions(directory):
    path = directory({"pooling_mode": "cls"}, tuple(NEW.values()))
    found = read_sentence_transformers(path)
    assert (found.pooling, found.normalize) == (PoolingType.CLS, True)


@pytest.mark.parametrize("name", ["sentence_bert_config", "sentence_roberta_config"])
def test_the_limit_and_the_letters_of_texts(directory, name):
    files = {name: {"max_seq_length": 128, "do_lower_case": True}}
    found = read_sentence_transformers(directory({"pooling_mode": "mean"}, **files))
    assert (found.max_seq_length, found.lower_case) == (128, True)


def test_the_limit_that_newer_versions_keep_with_the_tokenizer(directory):
    files = {"sentence_bert_config": {}, "tokenizer_config": {"model_max_length": 77}}
    found = read_sentence_transformers(directory({"pooling_mode": "mean"}, **files))
    assert (found.max_seq_length, found.lower_case) == (77, False)


@pytest.mark.parametrize(("name", "told"), [("query", True), (None, False)])
def test_a_prompt_that_the_library_would_add_is_told_of(directory, caplog, name, told):
    files = {"config_sentence_transformers": {"default_prompt_name": name, "prompts": {}}}
    read_sentence_transformers(directory({"pooling_mode": "mean"}, **files))
    assert ("default_prompt_name is 'query'" in caplog.text) == told


def test_other_directories_have_no_description(tmp_path, directory):
    assert read_sentence_transformers(tmp_path) is None
    assert read_sentence_transformers(directory(None, ("Transformer",))) is None


@pytest.mark.parametrize(
    ("pooling", "names", "message"),
    [
        ({"pooling_mode": "max"}, ("Transformer", "Pooling"), "pools by max; by mean, cls, last"),
        ({"pooling_mode": ["mean", "cls"]}, ("Transformer", "Pooling"), "pools by mean and cls"),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, ("Transformer", "Pooling"), "mean_sqrt_len"),
        ({}, ("Transformer", "Pooling"), "pools by no mode"),
        ({"pooling_mode": "mean"}, ("Transformer", "Pooling", "Dense"), "module 'Dense' is not"),
        (None, ("Transformer", "Pooling"), r"config.json, which is missing"),
        ("{", ("Transformer", "Pooling"), "is not JSON"),
        ("[]", ("Transformer", "Pooling"), "must hold a JSON object"),
    ],
)
def test_what_would_give_other_embeddings_is_refused(directory, pooling, names, message):
    with pytest.raises(ModelLoadError, match=message):
        read_sentence_transformers(directory(pooling, names))


@pytest.mark.parametrize("text", ["{}", "[5]", "["])
def test_a_damaged_list_of_modules_is_refused(tmp_path, text):
    (tmp_path / "modules.json").write_text(text)
    with pytest.raises(ModelLoadError, match=r"modules\.json (must hold a list|is not JSON)"):
        read_sentence_transformers(tmp_path)
