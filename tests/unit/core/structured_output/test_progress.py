"""What follows in a constraint, beside what else limits the next token."""

import numpy as np
import pytest

from runtime.core.structured_output.progress import (
    ConstraintError,
    GrammarProgress,
    OtherLimits,
    bits_of,
    grammar_failure,
)

EOS = 63


class Word:
    """A matcher of one sequence of tokens, or of any of them from ``open_from`` on."""

    def __init__(self, *tokens, loop=()):
        self.tokens, self.loop, self.at, self.ended = tokens, loop, 0, False

    def _next(self):
        return [self.tokens[self.at]] if self.at < len(self.tokens) else [*self.loop, EOS]

    def accept(self, token_id):
        if token_id not in self._next():
            return False
        self.ended = token_id == EOS
        self.at += 1
        return True

    def fill(self, mask):
        mask[:] = bits_of(self._next(), len(mask))


@pytest.fixture
def following():
    """Tokens that may follow an output; None where it has ended."""

    def run(matcher, output, **limits):
        mask = np.zeros(2, dtype=np.int32)
        progress = GrammarProgress(matcher, [EOS])
        if not progress.next_tokens(np.array(output, dtype=np.int32), mask, OtherLimits(**limits)):
            return None
        return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist()

    return run


def test_bits_are_numbered_from_the_lowest():
    assert bits_of([0, 31, 32], 2).tolist() == [1 - 2**31, 1]
    assert not bits_of([], 2).any()


def test_the_matcher_sees_each_token_once(following):
    matcher = Word(4, 5, 6)
    mask = np.zeros(2, dtype=np.int32)
    progress = GrammarProgress(matcher, [EOS])
    for output in ([], [4], [4, 5], [4, 5, 6]):
        assert progress.next_tokens(np.array(output, dtype=np.int32), mask, OtherLimits())
        assert matcher.at == len(output)
    # After a preemption a new one sees all of it at once.
    assert following(Word(4, 5, 6), [4, 5]) == [6]


@pytest.mark.parametrize(
    ("output", "limits", "expected"),
    [
        ([1], {}, [7, 8, EOS]),
        ([1], {"allowed": [8, 9]}, [8]),
        ([1], {"allowed": [9]}, [EOS]),
        ([1], {"forbidden": [7]}, [8, EOS]),
        ([1], {"forbidden": [7, 8, EOS]}, [EOS]),
        ([1], {"avoided": [EOS]}, [7, 8]),
        ([1], {"avoided": [EOS], "allowed": [9]}, [EOS]),
        ([1], {"avoided": [EOS, 7, 8]}, [7, 8, EOS]),
        ([1, 7, 8, 7], {"avoided": [7]}, [8, EOS]),
        ([1, EOS], {}, None),
        ([1, EOS, 5, 5], {}, None),
    ],
)
def test_other_limits_take_part(following, output, limits, expected):
    assert following(Word(1, loop=(7, 8)), output, **limits) == expected


@pytest.mark.parametrize("limits", [{"allowed": [2]}, {"forbidden": [1]}])
def test_a_contradiction_is_said(following, limits):
    with pytest.raises(ConstraintError, match="contradicts"):
        following(Word(1), [], **limits)


def test_a_token_that_breaks_the_constraint_is_said(following):
    with pytest.raises(ConstraintError, match="token 9 at position 1"):
        following(Word(1, 2), [1, 9])


def test_a_matcher_that_allows_nothing_is_said(following):
    matcher = Word(1)
    matcher.fill = lambda mask: None
    with pytest.raises(ConstraintError, match="allows no token"):
        following(matcher, [])


def test_failures_are_one_short_line():
    assert grammar_failure(ConstraintError("why")) == "why"
    assert "OSError: x" in grammar_failure(OSError("x" * 5000))
    assert len(grammar_failure(OSError("x" * 5000))) < 400
