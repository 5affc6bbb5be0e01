import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from runtime.core.tokenizer.detokenizer import MAX_WINDOW, IncrementalDetokenizer
from runtime.core.tokenizer.fast import FastTokenizer
from runtime.core.tokenizer.gguf import tokenizer_from_gguf

TEXTS = [
    "你好，世界！",
    " 안녕하세요 세계",
    "👩‍👩‍👧‍👦😀🇩🇪",
    "Hello world, ",
    "<|user|>",
    "</s>",
    " ",
    "\n\n",
    "é́𝔘",
    "\ufffd",
]
LIMITS = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def tokenizers_by_name(byte_level, sentencepiece_metadata, somewhere):
    """One byte-level, one with byte fallback."""
    return {
        "bytes": FastTokenizer(byte_level(), special_tokens={}, chat_templates={}),
        "pieces": tokenizer_from_gguf(somewhere, sentencepiece_metadata),
    }


@pytest.fixture(params=["bytes", "pieces"])
def tokenizer(request, tokenizers_by_name):
    return tokenizers_by_name[request.param]


def _stream(tokenizer, prompt, output, **kwargs):
    detokenizer = IncrementalDetokenizer(tokenizer, prompt, **kwargs)
    deltas = [detokenizer.append([token_id]) for token_id in output]
    deltas.append(detokenizer.finish())
    assert detokenizer.text == "".join(deltas)
    return deltas


def _after(tokenizer, prompt, output, skip):
    """What the output adds to the prompt's text; None where it changes that text."""
    before = tokenizer.decode(prompt, skip_special_tokens=skip)
    whole = tokenizer.decode([*prompt, *output], skip_special_tokens=skip)
    return whole.removeprefix(before) if whole.startswith(before) else None


@given(data=st.data())
@LIMITS
def test_the_pieces_make_what_decode_gives(tokenizer, data):
    """Any ids: also bytes that make no text, special tokens, and ids without a token."""
    any_id = st.integers(0, tokenizer.vocab_size + 2)
    text_ids = st.lists(st.sampled_from(TEXTS)).map(
        lambda texts: tokenizer.encode("".join(texts), add_special_tokens=False)
    )
    some = st.one_of(st.lists(any_id, max_size=80), text_ids)
    prompt, skip = data.draw(some), data.draw(st.booleans())
    output = data.draw(st.tuples(some, some).map(lambda parts: parts[0] + parts[1]))
    expected = _after(tokenizer, prompt, output, skip)
    deltas = _stream(tokenizer, prompt, output, skip_special_tokens=skip)
    if expected is not None:
        assert "".join(deltas) == expected


@given(texts=st.lists(st.sampled_from(TEXTS[:4] + TEXTS[8:9]), min_size=1), data=st.data())
@LIMITS
def test_text_that_completes_is_never_shown_incomplete(tokenizer, texts, data):
    ids = tokenizer.encode("".join(texts), add_special_tokens=False)
    cut = data.draw(st.integers(0, len(ids)))
    deltas = _stream(tokenizer, ids[:cut], ids[cut:])
    assert not any("\ufffd" in delta for delta in deltas)
    before = tokenizer.decode(ids[:cut]).rstrip("\ufffd")
    assert before + "".join(deltas) == "".join(texts)


@given(batches=st.lists(st.lists(st.integers(0, 300), max_size=5), max_size=20))
@LIMITS
def test_tokens_may_come_several_at_once(tokenizer, batches):
    one = IncrementalDetokenizer(tokenizer, [])
    pieces = "".join(one.append(batch) for batch in batches) + one.finish()
    assert pieces == "".join(_stream(tokenizer, [], itertools.chain(*batches)))


def test_an_output_cut_inside_an_emoji(tokenizer):
    ids = tokenizer.encode("hello 😀", add_special_tokens=False)[:-1]
    deltas = _stream(tokenizer, [], ids)
    assert "".join(deltas) == tokenizer.decode(ids)
    assert "".join(deltas[:-1]) == "hello "
    assert set(deltas[-1]) == {"\ufffd"}


def test_a_character_before_broken_bytes_comes_once(tokenizers_by_name):
    tokenizer = tokenizers_by_name["bytes"]
    ids = tokenizer.encode("A 世界ab", add_special_tokens=False)
    tail = tokenizer.encode("ab", add_special_tokens=False)
    partial = tokenizer.encode("界", add_special_tokens=False)[:1]
    start = tokenizer.encode("A 世", add_special_tokens=False)
    assert "".join(_stream(tokenizer, [], start + partial + tail)) == "A 世\ufffdab"
    assert "".join(_stream(tokenizer, [], ids)) == "A 世界ab"


def test_a_text_goes_on_with_its_blank(tokenizers_by_name):
    tokenizer = tokenizers_by_name["pieces"]
    prompt = tokenizer.encode("Hello")
    world = tokenizer.encode("world", add_special_tokens=False)
    assert "".join(_stream(tokenizer, prompt, world)) == " world"
    assert "".join(_stream(tokenizer, [], world)) == "world"
    only_special = [tokenizer.bos_token_id]
    assert "".join(_stream(tokenizer, only_special, world)) == "world"


def test_special_tokens_in_the_middle(tokenizers_by_name):
    tokenizer = tokenizers_by_name["bytes"]
    ids = tokenizer.encode("a世<|user|>b", add_special_tokens=False)
    assert "".join(_stream(tokenizer, [], ids)) == "a世b"
    assert "".join(_stream(tokenizer, [], ids, skip_special_tokens=False)) == "a世<|user|>b"


def test_the_cost_of_a_token_does_not_grow(tokenizer):
    """Counted in tokens decoded, for text and for bytes that never make any."""

    class Counting:
        def __init__(self):
            self.decoded = 0

        def __getattr__(self, name):
            return getattr(tokenizer, name)

        def decode(self, token_ids, **kwargs):
            self.decoded += len(token_ids)
            return tokenizer.decode(token_ids, **kwargs)

    text = tokenizer.encode("Hello world, 你好 😀 ", add_special_tokens=False)
    continuation = tokenizer.encode("世", add_special_tokens=False)[-1:]
    for pattern in (text, continuation):
        counting = Counting()
        detokenizer = IncrementalDetokenizer(counting, [])
        count = 5000
        for index in range(count):
            detokenizer.append([pattern[index % len(pattern)]])
        assert counting.decoded < count * 2 * MAX_WINDOW


def test_a_decoder_that_joins_bytes_takes_back_a_run():
    """Why runs of byte tokens are held: the last byte decides what the first ones are."""
    vocab = {"a": 0, "<0xE4>": 1, "<0xB8>": 2, "<0x96>": 3}
    backend = Tokenizer(models.BPE(vocab, [], byte_fallback=True))
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer = FastTokenizer(backend, special_tokens={}, chat_templates={})
    assert tokenizer.decode([1, 2, 3]) == "世"
    assert tokenizer.decode([1, 2, 3, 1]) == "\ufffd" * 4
    assert _stream(tokenizer, [], [1, 2, 3, 0]) == ["", "", "", "世a", ""]
    assert _stream(tokenizer, [], [1, 2, 3, 1]) == ["", "", "", "", "\ufffd" * 4]
