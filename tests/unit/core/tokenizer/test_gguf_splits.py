import pytest

from runtime.core.tokenizer.gguf_splits import SPLITS

TEXT = "It's 12345  Änd ABCdef\r\n\n x_y!! 你好'LL"


def _pieces(name):
    pieces = SPLITS[name].pre_tokenizer(prefix_space=False).pre_tokenize_str(TEXT)
    return [TEXT[start:stop] for _, (start, stop) in pieces]


@pytest.mark.parametrize("name", sorted(SPLITS))
def test_pieces_are_the_text(name):
    assert "".join(_pieces(name)) == TEXT


def test_digits():
    assert "12345" in " ".join(_pieces("gpt-2")).split()
    for name in ("smollm", "qwen2", "tekken"):
        assert _pieces(name).count("1") == _pieces(name).count("5") == 1, name
    for name in ("llama-bpe", "gpt-4o"):
        assert {"123", "45"} <= set(_pieces(name)), name


def test_what_tells_the_patterns_apart():
    assert _pieces("gpt-2")[:2] == ["It", "'s"]
    assert _pieces("gpt-2")[-2:] == ["'", "LL"]
    assert _pieces("llama-bpe")[-2:] == _pieces("tekken")[-2:] == [" 你好", "'LL"]
    assert _pieces("gpt-4o")[-1] == " 你好'LL"
    assert "It's" in _pieces("gpt-4o")
    assert "It's" not in _pieces("tekken")


def test_blanks_before_a_word():
    spaced = SPLITS["gpt-2"].pre_tokenizer(prefix_space=True).pre_tokenize_str("a")
    assert [piece for piece, _ in spaced] == ["Ġa"]


def test_only_qwen_normalises():
    assert {name for name, split in SPLITS.items() if split.normalizer is not None} == {
        "qwen2",
        "deepseek-r1-qwen",
    }
    assert SPLITS["qwen2"].normalizer.normalize_str("e\u0301") == "é"
