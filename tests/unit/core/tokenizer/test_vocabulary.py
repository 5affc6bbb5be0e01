"""The bytes of tokens: put together they are the text."""

import pytest
from tokenizers import Tokenizer, decoders, models

from runtime.core.tokenizer.vocabulary import vocabulary_bytes


def of(tokens, decoder, special=(), added=()):
    backend = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, []))
    backend.decoder = decoder
    backend.add_special_tokens(list(special))
    backend.add_tokens(list(added))
    return backend


SENTENCEPIECE = decoders.Sequence(
    [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
)


def test_byte_level_tokens():
    backend = of(["a", "Ġb", "Ċ", "ä½", "ł"], decoders.ByteLevel(), ["<s>"], ["<think>"])
    expected = [b"a", b" b", b"\n", "你".encode()[:2], "你".encode()[2:], b"", b"<think>", b""]
    assert vocabulary_bytes(backend, 8) == expected


def test_byte_level_has_all_bytes():
    from tokenizers.pre_tokenizers import ByteLevel

    backend = of(sorted(ByteLevel.alphabet()), decoders.ByteLevel())
    assert sorted(vocabulary_bytes(backend, 256)) == [bytes([byte]) for byte in range(256)]


def test_sentencepiece_tokens():
    backend = of(["▁a", "b▁▁", "<0x0A>", "<0xE4>", "é"], SENTENCEPIECE, ["</s>"])
    assert vocabulary_bytes(backend, 6) == [b" a", b"b  ", b"\n", b"\xe4", "é".encode(), b""]


@pytest.mark.parametrize("decoder", [None, decoders.WordPiece()])
def test_other_decoders_are_refused(decoder):
    backend = Tokenizer(models.BPE({"a": 0}, []))
    if decoder is not None:
        backend.decoder = decoder
    with pytest.raises(ValueError, match="is not supported"):
        vocabulary_bytes(backend, 1)
