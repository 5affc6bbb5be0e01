"""The bytes of each token, as they stand in a text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import tokenizers

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
_BLANK = "▁"


def vocabulary_bytes(backend: tokenizers.Tokenizer, size: int) -> list[bytes]:
    """Bytes of the tokens 0 to ``size``; empty for special tokens and for ids without one.

    Raises:
        ValueError: the pipeline's decoder is neither byte-level nor SentencePiece's.
    """
    steps = _decoder_steps(backend)
    added = backend.get_added_tokens_decoder()
    if "ByteLevel" in steps:
        spell = _byte_level
    elif steps & {"ByteFallback", "Metaspace"}:
        spell = _sentencepiece
    else:
        raise ValueError(f"a decoder of {', '.join(sorted(steps)) or 'nothing'} is not supported")
    result = []
    for token_id in range(size):
        token = backend.id_to_token(token_id)
        if token is None or (token_id in added and added[token_id].special):
            result.append(b"")
        elif token_id in added:
            # Added tokens stand in a text as they are.
            result.append(token.encode())
        else:
            result.append(spell(token))
    return result


def _decoder_steps(backend: tokenizers.Tokenizer) -> set[str]:
    if backend.decoder is None:
        return set()
    state: dict[str, Any] = json.loads(backend.decoder.__getstate__())
    return {step["type"] for step in state.get("decoders", [state])}


@cache
def _byte_of_char() -> Mapping[str, int]:
    """GPT-2's alphabet: printable bytes are themselves, the others characters from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    table |= {chr(256 + index): byte for index, byte in enumerate(others)}
    return MappingProxyType(table)


def _byte_level(token: str) -> bytes:
    table = _byte_of_char()
    try:
        return bytes(table[char] for char in token)
    except KeyError:
        return token.encode()


def _sentencepiece(token: str) -> bytes:
    byte = _BYTE_TOKEN.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else token.replace(_BLANK, " ").encode()
