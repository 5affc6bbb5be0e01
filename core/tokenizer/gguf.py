"""The tokenizer that a GGUF file's metadata describes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, processors

from runtime.core.errors import ModelLoadError
from runtime.core.tokenizer.fast import DEFAULT_TEMPLATE, FastTokenizer
from runtime.core.tokenizer.gguf_splits import SPLITS, Split

logger = logging.getLogger(__name__)

_NONE = ("none", "no_vocab")
_REMEDY = "name another with --tokenizer"


class TokenType(IntEnum):
    """``tokenizer.ggml.token_type``."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class _Vocabulary:
    """The ``tokenizer.ggml.`` part of the metadata."""

    path: Path
    metadata: Mapping[str, Any]

    def get(self, key: str, default: Any = None) -> Any:
        return self.metadata.get(f"tokenizer.ggml.{key}", default)

    def need(self, key: str) -> Any:
        value = self.get(key)
        if value is None:
            raise ModelLoadError(f"{self.path} has no tokenizer.ggml.{key}: {_REMEDY}")
        return value

    @property
    def tokens(self) -> list[str]:
        tokens: list[str] = self.need("tokens")
        return tokens

    @property
    def types(self) -> list[int]:
        types: list[int] = self.get("token_type") or [TokenType.NORMAL] * len(self.tokens)
        if len(types) != len(self.tokens):
            raise ModelLoadError(
                f"{self.path}: tokenizer.ggml.token_type has {len(types)} entries for "
                f"{len(self.tokens)} tokens"
            )
        return types

    def special(self, name: str) -> str | None:
        """The token that ``<name>_token_id`` points to."""
        token_id: int | None = self.get(f"{name}_token_id")
        if token_id is None:
            return None
        if token_id >= len(self.tokens):
            raise ModelLoadError(
                f"{self.path}: tokenizer.ggml.{name}_token_id is {token_id}, but there are "
                f"{len(self.tokens)} tokens"
            )
        return self.tokens[token_id]


def tokenizer_from_gguf(path: Path, metadata: Mapping[str, Any]) -> FastTokenizer:
    """Build the tokenizer from ``tokenizer.*`` metadata.

    Raises:
        ModelLoadError: there is none, a key is missing (it is named), or its kind is unknown.
    """
    vocabulary = _Vocabulary(path, metadata)
    kind = vocabulary.get("model")
    if kind is None or kind in _NONE:
        raise ModelLoadError(
            f"{path} has no tokenizer (tokenizer.ggml.model is {kind or 'missing'}): {_REMEDY}, "
            "or use token ids with skip_tokenizer_init"
        )
    if kind == "gpt2":
        split = _split(vocabulary)
        backend, add_bos = _byte_level(vocabulary, split), split.add_bos
    elif kind == "llama":
        backend, add_bos = _sentencepiece(vocabulary), True
    else:
        raise ModelLoadError(
            f"{path}: the tokenizer model {kind!r} is not supported (known: gpt2, llama): {_REMEDY}"
        )
    _add_tokens(backend, vocabulary)
    special = {
        f"{name}_token": token
        for name, key in {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}.items()
        if (token := vocabulary.special(key)) is not None
    }
    _surround(
        backend,
        special.get("bos_token") if vocabulary.get("add_bos_token", add_bos) else None,
        special.get("eos_token") if vocabulary.get("add_eos_token", False) else None,
    )
    return FastTokenizer(backend, special_tokens=special, chat_templates=_templates(metadata))


def _templates(metadata: Mapping[str, Any]) -> dict[str, str]:
    names = metadata.get("tokenizer.chat_templates", [])
    templates = {name: metadata[f"tokenizer.chat_template.{name}"] for name in names}
    if "tokenizer.chat_template" in metadata:
        templates[DEFAULT_TEMPLATE] = metadata["tokenizer.chat_template"]
    return templates


def _split(vocabulary: _Vocabulary) -> Split:
    name = vocabulary.get("pre", "default")
    if name not in SPLITS:
        raise ModelLoadError(
            f"{vocabulary.path}: tokenizer.ggml.pre {name!r} is not supported "
            f"(known: {', '.join(sorted(SPLITS))}): {_REMEDY}"
        )
    if name == "default":
        logger.warning(
            "%s does not say how its tokenizer splits text (tokenizer.ggml.pre is %s): "
            "splitting as GPT-2 does, which may cost quality",
            vocabulary.path,
            vocabulary.get("pre", "missing"),
        )
    return SPLITS[name]


def _byte_level(vocabulary: _Vocabulary, split: Split) -> tokenizers.Tokenizer:
    """Byte-level BPE (Radford et al. 2019, "Language models are unsupervised multitask learners").

    Tokens are written in GPT-2's alphabet of 256 printable characters, one a byte.
    """
    ids = {token: token_id for token_id, token in enumerate(vocabulary.tokens)}
    merges = [_pair(vocabulary, merge) for merge in vocabulary.need("merges")]
    backend = tokenizers.Tokenizer(_bpe(vocabulary, ids, merges, ignore_merges=split.ignore_merges))
    if split.normalizer is not None:
        backend.normalizer = split.normalizer
    prefix_space = bool(vocabulary.get("add_space_prefix", False))
    backend.pre_tokenizer = split.pre_tokenizer(prefix_space=prefix_space)
    backend.decoder = decoders.ByteLevel()
    return backend


def _pair(vocabulary: _Vocabulary, merge: str) -> tuple[str, str]:
    left, blank, right = merge.partition(" ")
    if not blank:
        raise ModelLoadError(f"{vocabulary.path}: tokenizer.ggml.merges has {merge!r}, not a pair")
    return left, right


def _bpe(
    vocabulary: _Vocabulary, ids: dict[str, int], merges: list[tuple[str, str]], **options: Any
) -> models.BPE:
    try:
        return models.BPE(vocab=ids, merges=merges, **options)
    # The library raises plain exceptions, e.g. for a merge of tokens that are not there.
    except Exception as error:
        raise ModelLoadError(
            f"{vocabulary.path}: tokenizer.ggml.merges do not fit the tokens: {error}"
        ) from error


def _sentencepiece(vocabulary: _Vocabulary) -> tokenizers.Tokenizer:
    """SentencePiece BPE with byte fallback (Kudo & Richardson 2018, arXiv:1808.06226).

    The file has scores and no merges. Merging always takes the neighbours whose join has the
    highest score, so each way to cut a piece in two is a merge, in the order of the scores.
    """
    tokens, types = vocabulary.tokens, vocabulary.types
    # Runs of blanks are written as they are, but text reaches the merges with ▁ for them.
    blanks = {i for i, token in enumerate(tokens) if token.startswith(" ") and not token.strip(" ")}
    ids = {"▁" * len(t) if i in blanks else t: i for i, t in enumerate(tokens)}
    merges = _merges_from_scores(ids, vocabulary.need("scores"), types)
    unknown = vocabulary.special("unknown")
    backend = tokenizers.Tokenizer(
        _bpe(vocabulary, ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    prefix = bool(vocabulary.get("add_space_prefix", True))
    blank_to_piece: normalizers.Normalizer = normalizers.Replace(" ", "▁")
    if prefix:
        # Always one more, as in SentencePiece, and after each special token.
        blank_to_piece = normalizers.Sequence([normalizers.Prepend("▁"), blank_to_piece])
    backend.normalizer = blank_to_piece
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if prefix:
        steps.append(decoders.Strip(content=" ", left=1, right=0))
    backend.decoder = decoders.Sequence(steps)
    return backend


def _merges_from_scores(
    ids: Mapping[str, int], scores: list[float], types: list[int]
) -> list[tuple[str, str]]:
    """Every way to cut a piece into two pieces, best piece first.

    User-defined pieces have no scores of their own: SentencePiece takes them before all others,
    earlier ones first.
    """

    def rank(piece: str) -> tuple[float, int]:
        token_id = ids[piece]
        user_defined = types[token_id] == TokenType.USER_DEFINED
        return (float("-inf") if user_defined else -scores[token_id], token_id)

    mergeable = (TokenType.NORMAL, TokenType.USER_DEFINED)
    pieces = [piece for piece, token_id in ids.items() if types[token_id] in mergeable]
    merges: list[tuple[str, str]] = []
    for piece in sorted(pieces, key=rank):
        # Ways to make one piece are tried longest left part first, as transformers orders them.
        for cut in range(len(piece) - 1, 0, -1):
            left, right = piece[:cut], piece[cut:]
            if left in ids and right in ids:
                merges.append((left, right))
    return merges


def _add_tokens(backend: tokenizers.Tokenizer, vocabulary: _Vocabulary) -> None:
    """Tokens that are found in a text as they are: control tokens, and those the user defined."""
    typed = list(zip(vocabulary.tokens, vocabulary.types, strict=True))
    control = [
        AddedToken(token, normalized=False, special=True)
        for token, kind in typed
        if kind == TokenType.CONTROL
    ]
    # Blanks are left to the merges, as in the models' own tokenizers.
    defined = [
        AddedToken(token, normalized=False, special=False)
        for token, kind in typed
        if kind == TokenType.USER_DEFINED and token.strip(" ")
    ]
    backend.add_special_tokens(control)
    backend.add_tokens(defined)


def _surround(backend: tokenizers.Tokenizer, bos: str | None, eos: str | None) -> None:
    """Let texts start and end with these tokens."""
    if bos is None and eos is None:
        return
    start, end = [bos] if bos else [], [eos] if eos else []
    backend.post_processor = processors.TemplateProcessing(
        single=[*start, "$A", *end],
        pair=[*start, "$A", *end, *start, "$B", *end],
        special_tokens=[(token, backend.token_to_id(token)) for token in {*start, *end}],
    )
