import pytest
from tokenizers.processors import TemplateProcessing

from runtime.core.errors import RequestError
from runtime.core.tokenizer.fast import FastTokenizer


@pytest.fixture
def tokenizer(byte_level):
    special = {"bos_token": "<s>", "eos_token": "</s>"}
    return FastTokenizer(byte_level(), special_tokens=special, chat_templates={})


def test_ids(tokenizer, byte_level):
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 1)
    assert tokenizer.special_ids == {0, 1, 2, 3}
    assert tokenizer.vocab_size == byte_level().get_vocab_size()
    assert tokenizer.byte_ids == frozenset()


def test_special_tokens_surround_a_text_when_asked(tokenizer):
    plain = tokenizer.encode("Hello", add_special_tokens=False)
    assert tokenizer.encode("Hello") == [0, *plain]


def test_a_text_is_cut_at_its_end_within_its_special_tokens(tokenizer, byte_level, samples):
    backend = byte_level()
    ends = TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
    backend.post_processor = ends
    both = FastTokenizer(backend, special_tokens={}, chat_templates={})
    for text in samples:
        plain = tokenizer.encode(text, add_special_tokens=False)
        for most in (2, 3, 5, 8, 1000):
            assert tokenizer.encode_truncated(text, most) == [0, *plain[: most - 1]]
            assert both.encode_truncated(text, most) == [0, *plain[: most - 2], 1]
    # Nothing stays set: what others encode is whole.
    assert both.encode("Hello world") == [0, *tokenizer.encode("Hello world")[1:], 1]
    assert both.encode_truncated("Hello", 1) == [0]
    with pytest.raises(RequestError, match="surrogate"):
        both.encode_truncated("\ud800", 5)


def test_ids_become_the_text_again(tokenizer, samples):
    for text in samples:
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_special_tokens_can_be_left_out(tokenizer):
    ids = tokenizer.encode("<|user|>hi<|end|>")
    assert tokenizer.decode(ids) == "hi"
    assert tokenizer.decode(ids, skip_special_tokens=False) == "<s><|user|>hi<|end|>"


def test_ids_outside_the_vocabulary_have_no_text(tokenizer):
    ids = tokenizer.encode("Hello", add_special_tokens=False)
    assert tokenizer.decode([*ids, tokenizer.vocab_size + 5]) == "Hello"
    assert tokenizer.token_text(tokenizer.vocab_size + 5) == ""


def test_truncation_and_padding_of_the_file_are_off(byte_level):
    backend = byte_level()
    backend.enable_truncation(2)
    backend.enable_padding(length=64)
    tokenizer = FastTokenizer(backend, special_tokens={}, chat_templates={})
    assert tokenizer.decode(tokenizer.encode("Hello world, hello")) == "Hello world, hello"


def test_half_of_a_surrogate_pair_is_refused(tokenizer):
    with pytest.raises(RequestError, match="unpaired surrogate"):
        tokenizer.encode("hello \ud83d")


def test_texts_of_single_tokens_keep_their_blanks(tokenizer):
    text = "Hello world, 你好"
    ids = tokenizer.encode(text, add_special_tokens=False)
    ascii_part = [tokenizer.token_text(i) for i in ids]
    assert "".join(ascii_part).startswith("Hello world, ")
    assert tokenizer.token_text(0) == "<s>"


class TestTemplates:
    MESSAGES = ({"role": "user", "content": "hi"},)

    def _with(self, byte_level, templates):
        special = {"bos_token": "<s>"}
        return FastTokenizer(byte_level(), special_tokens=special, chat_templates=templates)

    def test_none(self, tokenizer):
        assert tokenizer.chat_template is None
        with pytest.raises(RequestError, match="no chat template: set one with --chat-template"):
            tokenizer.apply_chat_template(self.MESSAGES)

    def test_the_default_sees_special_tokens_and_variables(self, byte_level):
        text = "{{ bos_token }}{{ messages[0].content }}{{ extra }}{{ tools is none }}"
        tokenizer = self._with(byte_level, {"default": text})
        assert tokenizer.chat_template == text
        assert tokenizer.apply_chat_template(self.MESSAGES, extra="!") == "<s>hi!True"

    def test_tools_have_a_template_of_their_own(self, byte_level):
        tokenizer = self._with(byte_level, {"default": "plain", "tool_use": "tools", "rag": "rag"})
        assert tokenizer.apply_chat_template(self.MESSAGES) == "plain"
        assert tokenizer.apply_chat_template(self.MESSAGES, tools=[{"name": "f"}]) == "tools"
        assert tokenizer.apply_chat_template(self.MESSAGES, chat_template="rag") == "rag"
        assert tokenizer.apply_chat_template(self.MESSAGES, chat_template="{{ 1 }}") == "1"

    def test_several_and_no_default(self, byte_level):
        tokenizer = self._with(byte_level, {"b": "1", "a": "2"})
        with pytest.raises(RequestError, match=r"no default: name one .*\(a, b\)"):
            tokenizer.apply_chat_template(self.MESSAGES)
