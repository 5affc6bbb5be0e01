"""Logits processors against plain NumPy, on rows that ask for them beside rows that do not."""

import numpy as np
import pytest

from runtime.core.errors import RequestError
from runtime.core.sampling.processors import LogitsProcessor
from runtime.core.sampling.registry import check_processor_names, register_logits_processor

VOCAB = 50


@pytest.fixture
def logits():
    return np.random.default_rng().normal(size=(3, VOCAB)).astype(np.float32) * 3


def penalised(row, prompt, output, *, repetition=1.0, presence=0.0, frequency=0.0):
    row = row.astype(np.float64).copy()
    for token in set(prompt) | set(output):
        row[token] = row[token] / repetition if row[token] > 0 else row[token] * repetition
    for token in set(output):
        row[token] -= presence + frequency * output.count(token)
    return row


@pytest.mark.parametrize("prompt", [[3], [3, 3, 7, 9]])
@pytest.mark.parametrize(
    ("repetition", "presence", "frequency"),
    [(1.3, 0.0, 0.0), (1.0, 2.0, 0.0), (1.0, 0.0, 2.0), (0.7, -1.0, 0.5)],
)
def test_penalties(bench, logits, params, prompt, repetition, presence, frequency):
    output = [7, 7, 12]
    asked = params(
        repetition_penalty=repetition, presence_penalty=presence, frequency_penalty=frequency
    )
    rows = [(params(), prompt, output), (asked, prompt, output), (params(), prompt, [])]
    got = bench.processed(logits, *rows)
    expected = penalised(
        logits[1],
        prompt,
        output,
        repetition=repetition,
        presence=presence,
        frequency=frequency,
    )
    np.testing.assert_allclose(got[1], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(got[[0, 2]], logits[[0, 2]])


def test_presence_and_frequency_do_not_count_the_prompt(bench, logits, params):
    asked = params(presence_penalty=2.0, frequency_penalty=2.0)
    got = bench.processed(logits, (asked, [1, 2, 3], []), (asked, [1], []), (asked, [1], []))
    np.testing.assert_array_equal(got, logits)


def test_bias_allowed_tokens_and_their_neighbours(bench, logits, params):
    rows = [
        (params(logit_bias={4: -100, 5: 2.5}), [1], []),
        (params(allowed_token_ids=[2, 9]), [1], []),
        (params(), [1], []),
    ]
    got = bench.processed(logits, *rows)
    expected = logits.copy()
    expected[0, [4, 5]] += [-100, 2.5]
    mask = np.ones(VOCAB, bool)
    mask[[2, 9]] = False
    expected[1, mask] = -np.inf
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize(("output", "masked"), [([], True), ([8], True), ([8, 8], False)])
def test_min_tokens_masks_every_stop_until_then(bench, logits, params, output, masked):
    asked = params(min_tokens=2)
    plain = (params(), [1], [], [40, 41], [])
    got = bench.processed(logits, (asked, [1], output, [40, 41], []), plain, plain)
    assert np.isinf(got[0, [40, 41]]).all() == masked
    np.testing.assert_array_equal(got[1:], logits[1:])


@pytest.mark.parametrize(
    ("output", "masked"),
    [([], {6}), ([3], {6}), ([3, 4], {6, 5}), ([4, 4], {6}), ([9, 3, 4], {6, 5})],
)
def test_bad_words_mask_the_token_that_completes_them(bench, logits, params, output, masked):
    asked = params(bad_words=["whatever"])
    plain = (params(), [3, 4], [])
    got = bench.processed(logits, (asked, [3, 4], output, [], [[3, 4, 5], [6]]), plain, plain)
    assert set(np.flatnonzero(np.isinf(got[0])).tolist()) == masked


def test_a_plugin_brings_a_processor(new_bench, logits, params):
    @register_logits_processor
    class OnlyEven(LogitsProcessor):
        name = "test_only_even"

        def apply(self, logits, batch):
            for row in batch.rows(lambda p: self.name in p.logits_processors):
                logits[row, 1::2] = -float("inf")

    bench = new_bench()
    asked = params(logits_processors=["test_only_even"])
    logits[:, 11] = 100
    tokens, _ = bench.sample(logits, (params(), [1], []), (asked, [1], []), (params(), [1], []))
    assert tokens[0] == tokens[2] == 11
    assert tokens[1] % 2 == 0
    assert register_logits_processor(OnlyEven) is OnlyEven, "registering again is harmless"
    with pytest.raises(ValueError, match="registered twice"):
        register_logits_processor(type("Other", (OnlyEven,), {}))


def test_an_unknown_processor_is_refused_by_name():
    with pytest.raises(RequestError, match="'nope' is not registered"):
        check_processor_names(("nope",))
