"""Masks of grammars among rows that have none, on each of the built-in platforms."""

import numpy as np
import pytest
import torch

from runtime.core.sampling.params import SamplingParams
from runtime.core.structured_output.params import StructuredOutputs
from runtime.core.structured_output.progress import GrammarProgress, bits_of

VOCAB, EOS = 70, 69


class Allows:
    """A matcher that always allows the same tokens."""

    ended = False

    def __init__(self, *tokens):
        self.tokens = tokens

    def accept(self, token_id):
        return token_id in self.tokens

    def fill(self, mask):
        mask[:] = bits_of(self.tokens, len(mask))


class Broken(Allows):
    def fill(self, mask):
        raise OSError("broken")


def params(**given):
    return SamplingParams(temperature=0, structured_outputs=StructuredOutputs(regex="a"), **given)


@pytest.fixture
def masked(bench):
    """Tokens that are possible in each row, and each row's failure."""

    def run(*rows):
        batch = bench.batch(*((own, [1], output) for own, output, _ in rows))
        for state, (_, _, matcher) in zip(batch.states, rows, strict=True):
            state.grammar = None if matcher is None else GrammarProgress(matcher, [EOS])
        logits = bench.on_device(np.tile(np.arange(VOCAB, dtype=np.float32), (len(rows), 1)))
        with torch.inference_mode():
            bench.sampler.choose(logits, batch)
        host = bench.platform.memory.copy_to_host(logits)
        possible = [row.isfinite().nonzero()[:, 0].tolist() for row in host]
        return possible, [state.failure for state in batch.states]

    return run


ALL = list(range(VOCAB))
PLAIN = SamplingParams(temperature=0)


def test_a_grammar_masks_its_own_row(masked):
    possible, failures = masked((PLAIN, [], None), (params(), [], Allows(0, 33, 64)))
    assert possible == [ALL, [0, 33, 64]]
    assert failures == [None, None]


def test_a_batch_of_grammars(masked):
    rows = [(params(), [], Allows(index, 68)) for index in range(5)]
    assert masked(*rows)[0] == [[index, 68] for index in range(5)]


def test_other_parameters_take_part(masked):
    possible, failures = masked(
        (params(allowed_token_ids=[3, 4]), [], Allows(4, 5)),
        (params(min_tokens=3, max_tokens=9), [], Allows(4, EOS)),
        (params(min_tokens=3, max_tokens=9), [], Allows(EOS)),
        (params(ignore_eos=True), [], Allows(4, EOS)),
        (params(logit_bias={4: -100.0}), [], Allows(4)),
    )
    # Without ignore_eos the scheduler names the stop tokens, which this batch has not.
    assert possible == [[4], [4, EOS], [EOS], [4], [4]]
    assert failures == [None] * 5


def test_what_goes_wrong_is_one_rows_failure(masked):
    possible, failures = masked(
        (params(), [], Broken()),
        (params(allowed_token_ids=[3]), [], Allows(4)),
        (params(), [9], Allows(4)),
        (params(), [], Allows(6)),
        (PLAIN, [], None),
    )
    assert possible[3:] == [[6], ALL]
    words = ("OSError: broken", "contradicts", "does not allow token 9")
    assert all(word in failure for word, failure in zip(words, failures, strict=False))
    assert failures[3:] == [None, None]


def test_an_output_that_has_ended_is_left_alone(masked):
    ended = Allows(4)
    ended.ended = True
    assert masked((params(), [EOS], ended)) == ([ALL], [None])
