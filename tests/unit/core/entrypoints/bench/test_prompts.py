"""Random prompts have exactly as many tokens as asked."""

import random

import pytest

from runtime.core.entrypoints.bench.prompts import TextPrompts, TokenPrompts
from runtime.core.errors import ConfigError
from runtime.core.tokenizer.load import tokenizer_at


def test_token_prompts_have_the_length_and_no_special_token():
    maker = TokenPrompts(20, special_ids={0, 7})
    prompt = maker.make(random.Random(0), 500)
    assert len(prompt.token_ids) == 500
    assert set(prompt.token_ids) == set(range(20)) - {0, 7}
    assert prompt.text is None


def test_token_prompts_go_on_from_a_prefix():
    maker, rng = TokenPrompts(50), random.Random(0)
    prefix = maker.make(rng, 8)
    one, other = (maker.make(rng, 5, prefix) for _ in range(2))
    assert one.token_ids[:8] == other.token_ids[:8] == prefix.token_ids
    assert len(one.token_ids) == 13
    assert one != other


def test_a_vocabulary_of_special_tokens_only_is_refused():
    with pytest.raises(ConfigError, match="a vocabulary of 2 tokens has none"):
        TokenPrompts(2, special_ids={0, 1})


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("length", [2, 3, 100])
def test_text_is_tokenised_to_the_length(word_tokenizer, bos, length):
    tokenizer = word_tokenizer(bos=bos)
    maker, rng = TextPrompts(tokenizer, special_tokens=True), random.Random(0)
    for _ in range(20):
        prompt = maker.make(rng, length)
        assert len(tokenizer.encode(prompt.text)) == length
        assert tokenizer.encode(prompt.text) == list(prompt.token_ids)


def test_special_tokens_do_not_count_where_the_server_adds_none(word_tokenizer):
    tokenizer = word_tokenizer(bos=True)
    prompt = TextPrompts(tokenizer, special_tokens=False).make(random.Random(0), 9)
    assert len(tokenizer.encode(prompt.text, add_special_tokens=False)) == 9


def test_text_goes_on_from_a_prefix(word_tokenizer):
    tokenizer = word_tokenizer(bos=True)
    maker, rng = TextPrompts(tokenizer, special_tokens=True), random.Random(0)
    prefix = maker.make(rng, 10)
    whole = maker.make(rng, 6, prefix)
    assert whole.text.startswith(prefix.text)
    assert len(tokenizer.encode(whole.text)) == 16


@pytest.mark.weights
def test_the_real_tokenizer_gives_exact_texts(smollm2_path):
    tokenizer = tokenizer_at(str(smollm2_path))
    maker, rng = TextPrompts(tokenizer, special_tokens=True), random.Random(3)
    for length in (1, 17, 1024):
        assert len(tokenizer.encode(maker.make(rng, length).text)) == length


def test_a_length_that_special_tokens_exceed_is_refused(word_tokenizer):
    maker = TextPrompts(word_tokenizer(bos=True), special_tokens=True)
    with pytest.raises(ConfigError, match="no random text of 0 tokens"):
        maker.make(random.Random(0), 0)
