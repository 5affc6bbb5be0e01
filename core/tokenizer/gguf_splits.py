"""How byte-level vocabularies split text before merging, by GGUF's name for it.

The patterns are those of the models' own tokenizer.json files; the names are llama.cpp's
(``tokenizer.ggml.pre``). A new name is one more entry in :data:`SPLITS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tokenizers import Regex, normalizers, pre_tokenizers

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_TAIL = r"|\s+(?!\S)|\s+"
_LLAMA3 = (
    _CONTRACTIONS
    + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    + _TAIL
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*%s"
    r"|%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+"
) + _TAIL
_TEKKEN = _CASED % ("", "", r"\p{N}")
_GPT4O = _CASED % (_CONTRACTIONS + "?", _CONTRACTIONS + "?", r"\p{N}{1,3}")


@dataclass(frozen=True)
class Split:
    """What happens to a text before merging."""

    pattern: str | None = None
    """Regular expression of the pieces; None is GPT-2's."""
    single_digits: bool = False
    """Whether each digit is a piece by itself, before the pattern is applied."""
    ignore_merges: bool = False
    """Whether a piece that is a token is taken whole even if no merges lead to it."""
    nfc: bool = False
    """Whether the text is brought into Unicode's normal form C first."""
    add_bos: bool = False
    """Whether texts start with BOS where the file does not say."""

    def pre_tokenizer(self, *, prefix_space: bool) -> pre_tokenizers.PreTokenizer:
        """The pipeline step; it ends in the byte alphabet."""
        steps: list[pre_tokenizers.PreTokenizer] = []
        if self.single_digits:
            steps.append(pre_tokenizers.Digits(individual_digits=True))
        if self.pattern is not None:
            steps.append(pre_tokenizers.Split(Regex(self.pattern), behavior="isolated"))
        steps.append(
            pre_tokenizers.ByteLevel(add_prefix_space=prefix_space, use_regex=self.pattern is None)
        )
        return pre_tokenizers.Sequence(steps)

    @property
    def normalizer(self) -> normalizers.Normalizer | None:
        """The pipeline step before, if any."""
        return normalizers.NFC() if self.nfc else None


_GPT2 = Split()
_DIGITS = Split(single_digits=True)
_LLAMA3_SPLIT = Split(_LLAMA3, ignore_merges=True, add_bos=True)
_QWEN2_SPLIT = Split(_QWEN2, nfc=True)

SPLITS: Mapping[str, Split] = MappingProxyType(
    {
        "default": _GPT2,
        "gpt-2": _GPT2,
        "gpt2": _GPT2,
        "phi-2": _GPT2,
        "mpt": _GPT2,
        "olmo": _GPT2,
        "jais": _GPT2,
        "smollm": _DIGITS,
        "starcoder": _DIGITS,
        "refact": _DIGITS,
        "command-r": _DIGITS,
        "codeshell": _DIGITS,
        "llama3": _LLAMA3_SPLIT,
        "llama-v3": _LLAMA3_SPLIT,
        "llama-bpe": _LLAMA3_SPLIT,
        "dbrx": Split(_LLAMA3),
        "smaug-bpe": Split(_LLAMA3),
        "qwen2": _QWEN2_SPLIT,
        "deepseek-r1-qwen": _QWEN2_SPLIT,
        "tekken": Split(_TEKKEN, ignore_merges=True, add_bos=True),
        "gpt-4o": Split(_GPT4O),
        "llama4": Split(_GPT4O, add_bos=True),
    }
)
