"""Structured output by xgrammar (Dong et al. 2024, arXiv:2411.15100)."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from runtime.core.structured_output.interface import (
    CompiledGrammar,
    GrammarError,
    Matcher,
    StructuredOutputBackend,
    Vocabulary,
)
from runtime.core.structured_output.json_schema import checked_schema
from runtime.core.structured_output.params import Constraint, ConstraintKind
from runtime.core.structured_output.progress import bits_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_SOURCE = re.compile(r"^\[[\d:]+\] \S+:\d+: ")
"""Time, file and line with which the library begins its messages."""
_CONTROL = re.compile(rb"[\x00-\x09\x0b\x0c\x0e-\x1f]")
"""Control characters other than the ends of lines."""
_LEAD = b"\xed"
_AFTER_LEAD = re.compile(rb"[\xa0-\xbf]")
_SURROGATE = re.compile(_LEAD + _AFTER_LEAD.pattern)
"""A surrogate as UTF-8 would spell it; the two bytes may be in two tokens."""
_ANY_OBJECT = json.dumps({"type": "object", "additionalProperties": True})
_EXTRA = "pip install 'runtime[structured-outputs]'"


class XGrammarBackend(StructuredOutputBackend):
    """Compiles to pushdown automata with precomputed token masks."""

    name = "xgrammar"

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        import xgrammar

        info = xgrammar.TokenizerInfo(
            list(vocabulary.token_bytes),
            xgrammar.VocabType.RAW,
            vocab_size=vocabulary.size,
            stop_token_ids=list(vocabulary.eos_token_ids),
        )
        # The engine keeps what was compiled, within limits of its own.
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self._possible = {is_json: _possible(vocabulary, is_json) for is_json in (False, True)}
        self._not_after_lead = ~_tokens_like(vocabulary, _AFTER_LEAD.match)

    @classmethod
    def missing(cls) -> str | None:
        """The packages of the extra that are not there."""
        names = ("xgrammar", "jsonschema")
        absent = [name for name in names if importlib.util.find_spec(name) is None]
        return f"{' and '.join(absent)} ({_EXTRA})" if absent else None

    def compile(self, constraint: Constraint) -> CompiledGrammar:
        """See the base class. JSON schemas are checked first for what the library leaves out."""
        schema = checked_schema(constraint.text) if constraint.kind is ConstraintKind.JSON else None
        try:
            compiled = self._compile(constraint, schema)
        # The library raises RuntimeError for whatever is wrong with its input.
        except RuntimeError as error:
            raise GrammarError(_SOURCE.sub("", str(error)).strip()) from error
        is_json = constraint.kind in (ConstraintKind.JSON, ConstraintKind.JSON_OBJECT)
        return _Compiled(compiled, self.vocabulary, self._possible[is_json], self._not_after_lead)

    def _compile(self, constraint: Constraint, schema: str | None) -> Any:
        compiler, text = self._compiler, constraint.text
        match constraint.kind:
            case ConstraintKind.JSON | ConstraintKind.JSON_OBJECT:
                return compiler.compile_json_schema(
                    schema or _ANY_OBJECT, any_whitespace=constraint.any_whitespace
                )
            case ConstraintKind.REGEX:
                return compiler.compile_regex(text)
            case ConstraintKind.CHOICE:
                return compiler.compile_grammar(choice_grammar(json.loads(text)))
            case ConstraintKind.GRAMMAR:
                ebnf = "::=" in text
                return compiler.compile_grammar(text) if ebnf else compiler.compile_lark(text)


class _Compiled:
    """A compiled grammar of the library."""

    def __init__(
        self,
        compiled: Any,
        vocabulary: Vocabulary,
        possible: npt.NDArray[np.int32],
        not_after_lead: npt.NDArray[np.int32],
    ) -> None:
        self._compiled = compiled
        self._vocabulary = vocabulary
        self._masks = (possible, not_after_lead)

    @property
    def memory_bytes(self) -> int:
        return int(self._compiled.memory_size_bytes)

    def matcher(self) -> Matcher:
        import xgrammar

        ends = list(self._vocabulary.eos_token_ids)
        matcher = xgrammar.GrammarMatcher(self._compiled, override_stop_tokens=ends)
        return _Matcher(matcher, self._vocabulary.token_bytes, *self._masks)


class _Matcher:
    """A matcher of the library."""

    def __init__(
        self,
        matcher: Any,
        token_bytes: Sequence[bytes],
        possible: npt.NDArray[np.int32],
        not_after_lead: npt.NDArray[np.int32],
    ) -> None:
        self._matcher = matcher
        self._token_bytes = token_bytes
        self._possible = possible
        self._not_after_lead = not_after_lead
        self._after_lead = False

    def accept(self, token_id: int) -> bool:
        if not self._matcher.accept_token(token_id):
            return False
        self._after_lead = self._token_bytes[token_id].endswith(_LEAD)
        return True

    def fill(self, mask: npt.NDArray[np.int32]) -> None:
        mask.fill(-1)
        self._matcher.fill_next_token_bitmask(mask[None], 0)
        # It leaves bits beyond the vocabulary as they were.
        mask &= self._possible
        if self._after_lead:
            mask &= self._not_after_lead

    @property
    def ended(self) -> bool:
        return bool(self._matcher.is_terminated())


def _possible(vocabulary: Vocabulary, is_json: bool) -> npt.NDArray[np.int32]:
    """Tokens that have a text, and those that end an output.

    The library would spell halves of surrogate pairs, which UTF-8 does not have. JSON has no
    control characters within strings, but the library lets them into those that have a maxLength.
    Line ends it keeps out there itself, and between values a tab is never needed.
    """

    def spelt(text: bytes) -> bool:
        return (
            bool(text) and not _SURROGATE.search(text) and not (is_json and _CONTROL.search(text))
        )

    ends = bits_of(vocabulary.eos_token_ids, vocabulary.mask_words)
    return _tokens_like(vocabulary, spelt) | ends


def _tokens_like(vocabulary: Vocabulary, like: Callable[[bytes], object]) -> npt.NDArray[np.int32]:
    ids = [token_id for token_id, text in enumerate(vocabulary.token_bytes) if like(text)]
    return bits_of(ids, vocabulary.mask_words)


def choice_grammar(choices: list[str]) -> str:
    """A grammar, in EBNF, of which each choice is a text."""
    return "root ::= " + " | ".join(f'"{"".join(map(_escaped, text))}"' for text in choices)


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
