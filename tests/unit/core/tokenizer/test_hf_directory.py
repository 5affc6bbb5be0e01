import json
import subprocess
import sys

import pytest

from runtime.core.errors import ModelLoadError
from runtime.core.tokenizer.hf_directory import tokenizer_from_directory

CHAT = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]


def _assert_same(path, samples):
    transformers = pytest.importorskip("transformers")
    ours = tokenizer_from_directory(path)
    theirs = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
    for text in samples:
        for special in (True, False):
            ids = ours.encode(text, add_special_tokens=special)
            assert ids == theirs.encode(text, add_special_tokens=special), text
            for cut in (ids, ids[1:], ids[:-1]):
                assert ours.decode(cut, skip_special_tokens=special) == theirs.decode(
                    cut, skip_special_tokens=special
                )
    assert ours.bos_token_id == theirs.bos_token_id
    assert ours.eos_token_id == theirs.eos_token_id
    assert ours.vocab_size == len(theirs)
    if theirs.chat_template is not None:
        for prompt in (True, False):
            assert ours.apply_chat_template(
                CHAT, add_generation_prompt=prompt
            ) == theirs.apply_chat_template(CHAT, add_generation_prompt=prompt, tokenize=False)
    return ours


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"add_bos_token": False, "add_eos_token": True},
        {"clean_up_tokenization_spaces": True},
        {"eos_token": {"__type": "AddedToken", "content": "<|end|>", "lstrip": False}},
        {"pad_token": "<new pad>", "unk_token": "Hello"},
        {"additional_special_tokens": ["world", "<fresh>"]},
        {"extra_special_tokens": {"image_token": "<image>"}},
        {
            "added_tokens_decoder": {
                "3": {"content": "<|end|>", "lstrip": True, "rstrip": True, "special": True},
                "420": {"content": "<added>", "special": False, "normalized": False},
            }
        },
        {"bos_token": None, "chat_template": None},
        {"chat_template": [{"name": "default", "template": "{{ messages[0].content }}"}]},
    ],
)
def test_is_what_transformers_makes_of_it(tokenizer_dir, samples, config):
    more = ["Hello <new pad> world <fresh> <image> x <|end|> y <added>z"]
    _assert_same(tokenizer_dir(**config), samples + more)


def test_special_tokens_of_a_file_of_their_own(tokenizer_dir, samples):
    path = tokenizer_dir(bos_token=None, eos_token=None)
    (path / "special_tokens_map.json").write_text(
        json.dumps({"bos_token": "<s>", "eos_token": {"content": "<|end|>", "lstrip": False}})
    )
    assert _assert_same(path, samples).eos_token_id == 3


def test_without_a_config(tokenizer_dir):
    path = tokenizer_dir()
    (path / "tokenizer_config.json").unlink()
    tokenizer = tokenizer_from_directory(path)
    assert tokenizer.decode(tokenizer.encode("Hello")) == "Hello"
    assert tokenizer.eos_token_id is None


def test_a_template_file_comes_first(tokenizer_dir, samples):
    path = tokenizer_dir()
    (path / "chat_template.jinja").write_text("{{ messages[1].content }}")
    assert _assert_same(path, samples[:1]).apply_chat_template(CHAT) == "yo"
    folder = path / "additional_chat_templates"
    folder.mkdir()
    (folder / "tool_use.jinja").write_text("tools")
    tokenizer = tokenizer_from_directory(path)
    assert tokenizer.apply_chat_template(CHAT) == "yo"
    assert tokenizer.apply_chat_template(CHAT, tools=[{}]) == "tools"


def test_neither_file(tmp_path):
    with pytest.raises(ModelLoadError, match=r"looked for tokenizer\.json and tokenizer\.model"):
        tokenizer_from_directory(tmp_path)


def test_damaged_files(tokenizer_dir):
    path = tokenizer_dir()
    (path / "tokenizer_config.json").write_text("{oops")
    with pytest.raises(ModelLoadError, match=r"tokenizer_config\.json is not JSON"):
        tokenizer_from_directory(path)
    tokenizer_dir()
    (path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelLoadError, match=r"tokenizer\.json is not a tokenizer"):
        tokenizer_from_directory(path)


def test_sentencepiece_alone(tmp_path, sentencepiece_model, samples):
    pytest.importorskip("google.protobuf", reason="transformers converts with it")
    (tmp_path / "tokenizer.model").write_bytes(sentencepiece_model[0].read_bytes())
    config = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = _assert_same(tmp_path, samples)
    assert tokenizer.decode(tokenizer.encode("Hello 世界")) == "Hello 世界"


def test_a_sentencepiece_model_that_cannot_be_converted(tmp_path):
    (tmp_path / "tokenizer.model").write_bytes(b"no model")
    with pytest.raises(ModelLoadError, match=r"tokenizer\.model could not be converted: "):
        tokenizer_from_directory(tmp_path)


def test_transformers_is_not_imported(tokenizer_dir):
    script = (
        "import sys; from pathlib import Path\n"
        "from runtime.core.tokenizer.hf_directory import tokenizer_from_directory\n"
        "tokenizer_from_directory(Path(sys.argv[1])).encode('x')\n"
        "assert 'transformers' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tokenizer_dir())], check=True)
