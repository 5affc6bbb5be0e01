import logging
from pathlib import Path

import pytest

from runtime.core.errors import ModelLoadError
from runtime.core.loader.gguf_header import read_header
from runtime.core.tokenizer.fast import FastTokenizer
from runtime.core.tokenizer.gguf import TokenType, tokenizer_from_gguf

PREFIX = "tokenizer.ggml."


@pytest.fixture
def build(somewhere):
    """Build from metadata with some keys changed or, with None, left out."""

    def make(metadata, **changes):
        merged = {**metadata, **{PREFIX + key: value for key, value in changes.items()}}
        return tokenizer_from_gguf(somewhere, {k: v for k, v in merged.items() if v is not None})

    return make


class TestByteLevel:
    def test_is_the_tokenizer_it_was_made_of(self, build, byte_level_metadata, byte_level, samples):
        ours = build(byte_level_metadata)
        original = FastTokenizer(byte_level(), special_tokens={}, chat_templates={})
        for text in samples:
            assert ours.encode(text) == original.encode(text), text
            ids = ours.encode(text, add_special_tokens=False)
            assert ours.decode(ids, skip_special_tokens=False) == text
        assert ours.special_ids == original.special_ids
        assert (ours.bos_token_id, ours.eos_token_id) == (0, 1)

    def test_bos_and_eos_are_added_as_the_file_says(self, build, byte_level_metadata):
        both = build(byte_level_metadata, add_eos_token=True).encode("Hello")
        none = build(byte_level_metadata, add_bos_token=False).encode("Hello")
        assert both == [0, *none, 1]
        unsaid = build(byte_level_metadata, add_bos_token=None).encode("Hello")
        assert unsaid == none

    def test_user_defined_tokens_are_found_and_shown(self, build, byte_level_metadata):
        tokens = [*byte_level_metadata[PREFIX + "tokens"], "<think> ö"]
        types = [*byte_level_metadata[PREFIX + "token_type"], int(TokenType.USER_DEFINED)]
        tokenizer = build(byte_level_metadata, tokens=tokens, token_type=types)
        ids = tokenizer.encode("x<think> öy", add_special_tokens=False)
        assert len(tokens) - 1 in ids
        assert tokenizer.decode(ids) == "x<think> öy"

    def test_templates(self, build, byte_level_metadata):
        chat = [{"role": "user", "content": "hi"}]
        assert build(byte_level_metadata).apply_chat_template(chat).startswith("<|user|>user: hi")
        named = {
            **byte_level_metadata,
            "tokenizer.chat_templates": ["tool_use"],
            "tokenizer.chat_template.tool_use": "tools",
        }
        assert build(named).apply_chat_template(chat, tools=[{}]) == "tools"

    def test_missing_keys_are_named(self, build, byte_level_metadata):
        for key in ("merges", "tokens"):
            with pytest.raises(ModelLoadError, match=rf"has no tokenizer\.ggml\.{key}: name"):
                build(byte_level_metadata, **{key: None})

    def test_an_unknown_split(self, build, byte_level_metadata):
        with pytest.raises(ModelLoadError, match=r"pre 'klingon' is not supported .*smollm"):
            build(byte_level_metadata, pre="klingon")

    @pytest.mark.parametrize("pre", ["default", None])
    def test_no_split_is_gpt2s_with_a_warning(self, build, byte_level_metadata, caplog, pre):
        with caplog.at_level(logging.WARNING):
            tokenizer = build(byte_level_metadata, pre=pre)
        assert "tokenizer.ggml.pre is" in caplog.text
        expected = build(byte_level_metadata).encode("it's 12345")
        assert tokenizer.encode("it's 12345") == expected

    def test_damaged_metadata(self, build, byte_level_metadata):
        with pytest.raises(ModelLoadError, match="merges has 'ab', not a pair"):
            build(byte_level_metadata, merges=["ab"])
        with pytest.raises(ModelLoadError, match="merges do not fit the tokens"):
            build(byte_level_metadata, merges=["nope nada"])
        with pytest.raises(ModelLoadError, match="eos_token_id is 9999, but there are 420"):
            build(byte_level_metadata, eos_token_id=9999)
        with pytest.raises(ModelLoadError, match="token_type has 1 entries for 420"):
            build(byte_level_metadata, token_type=[1])


class TestSentencePiece:
    def test_is_sentencepiece(self, build, sentencepiece_metadata, sentencepiece_model, samples):
        ours, (_, processor) = build(sentencepiece_metadata), sentencepiece_model
        for text in samples:
            if "<s>" in text or "<|" in text:
                continue  # SentencePiece takes control tokens in a text for plain text
            ids = ours.encode(text, add_special_tokens=False)
            if text:
                assert ids == processor.encode(text), text
            assert ours.decode(ids) == processor.decode(ids) == text
        assert any(ours.byte_ids & set(ours.encode(text)) for text in samples), "bytes are tried"
        assert len(ours.byte_ids) == 256

    def test_bos_unless_the_file_says_no(self, build, sentencepiece_metadata):
        plain = build(sentencepiece_metadata, add_bos_token=False).encode("Hello")
        assert build(sentencepiece_metadata).encode("Hello") == [1, *plain]

    def test_the_blank_before_a_text(self, build, sentencepiece_metadata):
        tokens = sentencepiece_metadata[PREFIX + "tokens"]
        with_blank = build(sentencepiece_metadata)
        without = build(sentencepiece_metadata, add_space_prefix=False)
        for tokenizer, first in ((with_blank, "▁"), (without, "H")):
            ids = tokenizer.encode("Hello", add_special_tokens=False)
            assert tokens[ids[0]].startswith(first)
            assert tokenizer.decode(ids) == "Hello"
        assert with_blank.decode(with_blank.encode(" Hello")) == " Hello"

    def test_user_defined_tokens_are_not_special(self, build, sentencepiece_metadata):
        tokenizer = build(sentencepiece_metadata)
        ids = tokenizer.encode("<|user|>hi<|end|>")
        assert {3, 4} <= set(ids)
        assert tokenizer.special_ids == {1, 2}
        assert "<|user|>" in tokenizer.decode(ids)

    def test_runs_of_blanks_are_pieces(self, build, sentencepiece_metadata):
        tokens = [*sentencepiece_metadata[PREFIX + "tokens"], "  ", "   "]
        user = int(TokenType.USER_DEFINED)
        changes = {
            "tokens": tokens,
            "token_type": [*sentencepiece_metadata[PREFIX + "token_type"], user, user],
            "scores": [*sentencepiece_metadata[PREFIX + "scores"], -1000.0, -1000.0],
        }
        tokenizer = build(sentencepiece_metadata, add_space_prefix=False, **changes)
        ids = tokenizer.encode("a   b", add_special_tokens=False)
        assert len(tokens) - 1 in ids
        assert tokenizer.decode(ids) == "a   b"

    def test_missing_keys_are_named(self, build, sentencepiece_metadata):
        with pytest.raises(ModelLoadError, match=r"has no tokenizer\.ggml\.scores"):
            build(sentencepiece_metadata, scores=None)

    def test_single_tokens_keep_their_blank(self, build, sentencepiece_metadata):
        tokenizer = build(sentencepiece_metadata)
        tokens = sentencepiece_metadata[PREFIX + "tokens"]
        assert tokenizer.token_text(tokens.index("▁the")) == " the"


@pytest.mark.parametrize("model", [None, "none", "no_vocab"])
def test_no_tokenizer_at_all(build, model):
    with pytest.raises(ModelLoadError, match=r"model\.gguf has no tokenizer .* --tokenizer"):
        build({}, model=model)


def test_an_unknown_model(build):
    with pytest.raises(ModelLoadError, match=r"'rwkv' is not supported \(known: gpt2, llama\)"):
        build({}, model="rwkv")


@pytest.mark.weights
def test_a_real_file_as_transformers_reads_it(smollm2_path: Path, samples):
    transformers = pytest.importorskip("transformers")
    ours = tokenizer_from_gguf(smollm2_path, read_header(smollm2_path).metadata)
    theirs = transformers.AutoTokenizer.from_pretrained(
        smollm2_path.parent, gguf_file=smollm2_path.name
    )
    texts = [*samples, "<|im_start|>user\nGrüße<|im_end|>\n", " " * 33 + "x", "ᚠᛇᚻ བོད་ཡིག 1,234.56"]
    for text in texts:
        for special in (True, False):
            ids = ours.encode(text, add_special_tokens=special)
            assert ids == theirs.encode(text, add_special_tokens=special), text
            for cut in (ids, ids[1:], ids[:-1]):
                assert ours.decode(cut, skip_special_tokens=special) == theirs.decode(
                    cut, skip_special_tokens=special
                )
    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo "}]
    for prompt in (True, False):
        assert ours.apply_chat_template(
            chat, add_generation_prompt=prompt
        ) == theirs.apply_chat_template(chat, add_generation_prompt=prompt, tokenize=False)
    assert (ours.bos_token_id, ours.eos_token_id) == (theirs.bos_token_id, theirs.eos_token_id)
