"""Drawing: distributions, filters, seeds, and rows that do not touch each other."""

import numpy as np
import pytest
import torch


def softmax(row):
    e = np.exp(row - row.max())
    return e / e.sum()


def test_greedy_takes_the_most_likely(bench, params):
    logits = np.random.default_rng().normal(size=(4, 30))
    tokens, logprobs = bench.sample(logits, *[(params(), [1], [])] * 4)
    assert tokens == logits.argmax(-1).tolist()
    assert logprobs == {}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_draws_follow_the_distribution(new_bench, params, temperature):
    bench = new_bench(seed=1)
    row = np.array([1.0, 0.0, -1.0, 2.0, 0.3])
    rows = [(params(temperature=temperature), [1], [])] * 500
    counts = np.zeros(5)
    for _ in range(20):
        tokens, _ = bench.sample(np.tile(row, (500, 1)), *rows)
        counts += np.bincount(tokens, minlength=5)
    expected = softmax(row / temperature) * 10_000
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert chi2 < 30, "p < 1e-5 with 4 degrees of freedom"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"top_k": 2}, {0, 1}),
        ({"top_k": 1}, {0}),
        ({"top_p": 0.5}, {0}),
        ({"top_p": 0.64}, {0}),
        ({"top_p": 0.66}, {0, 1}),
        ({"min_p": 0.3}, {0, 1}),
        ({"min_p": 0.1}, {0, 1, 2}),
        ({"top_k": 3, "top_p": 0.5}, {0}),
        ({"top_k": 100}, {0, 1, 2, 3}),
    ],
)
def test_filters_keep_what_they_say(bench, params, given, kept):
    # Probabilities 0.6439, 0.2369, 0.0871, 0.0321.
    logits = np.tile([3.0, 2.0, 1.0, 0.0], (300, 1))
    rows = [(params(temperature=1.0, **given), [1], [])] * 300
    tokens, _ = bench.sample(logits, *rows)
    assert set(tokens) <= kept
    if len(kept) > 1:
        assert len(set(tokens)) > 1


def test_a_seed_gives_the_same_token_wherever_its_row_stands(bench, new_bench, params):
    logits = np.random.default_rng(5).normal(size=(1, 200))
    seeded = params(temperature=1.0, seed=123)
    alone, _ = bench.sample(logits, (seeded, [1, 2], [3]))
    for _ in range(4):
        noise = np.random.default_rng().normal(size=(2, 200))
        other = params(temperature=1.0)
        stacked = np.concatenate([noise[:1], logits, noise[1:]])
        tokens, _ = bench.sample(stacked, (other, [1], []), (seeded, [1, 2], [3]), (other, [1], []))
        assert tokens[1] == alone[0]


def test_seeds_and_positions_give_different_draws(bench, params):
    logits = np.zeros((1, 10_000))
    drawn = {
        bench.sample(logits, (params(temperature=1.0, seed=seed), [1], [2] * length))[0][0]
        for seed in (0, 1, 2, -1, 2**64 - 2)
        for length in range(4)
    }
    assert len(drawn) >= 19


def test_unseeded_draws_repeat_with_the_engine_seed(new_bench, params):
    logits = np.zeros((8, 1000))
    rows = [(params(temperature=1.0), [1], [])] * 8
    first = [new_bench(seed=7).sample(logits, *rows)[0] for _ in range(2)]
    assert first[0] == first[1]
    assert new_bench(seed=8).sample(logits, *rows)[0] != first[0]


def test_greedy_beside_random_stays_greedy(bench, params):
    logits = np.random.default_rng().normal(size=(3, 100))
    hot = params(temperature=5.0)
    tokens, _ = bench.sample(logits, (hot, [1], []), (params(), [1], []), (hot, [1], []))
    assert tokens[1] == logits[1].argmax()


@pytest.mark.parametrize("count", [0, 1, 5, -1])
def test_logprobs_are_the_models_own(bench, params, count):
    logits = np.random.default_rng().normal(size=(2, 12)).astype(np.float32)
    asked = params(logprobs=count, repetition_penalty=1.5)
    tokens, found = bench.sample(logits, (params(), [1], []), (asked, [1, 2, 3], [4]))
    assert set(found) == {"1"}
    entry = found["1"]
    expected = torch.log_softmax(torch.tensor(logits[1]), -1)
    order = expected.argsort(descending=True).tolist()
    top = 12 if count == -1 else count
    assert entry.token_ids == [tokens[1], *order[:top]]
    np.testing.assert_allclose(
        entry.logprobs, expected[entry.token_ids].numpy(), rtol=1e-5, atol=1e-6
    )
    assert entry.ranks == [order.index(tokens[1]) + 1, *range(1, top + 1)]


def test_probability_zero_has_a_finite_logprob(bench, params):
    logits = np.array([[0.0, -np.inf, 1.0]])
    _, found = bench.sample(logits, (params(logprobs=-1), [1], []))
    assert found["0"].logprobs[-1] == -9999.0


def test_greedy_beside_random_takes_the_first_of_equal_ones(bench, params):
    logits = np.random.default_rng().normal(size=(2, 100))
    logits[1, [17, 40, 99]] = 9.0
    tokens, _ = bench.sample(logits, (params(temperature=1.0), [1], []), (params(), [1], []))
    assert tokens[1] == 17


def test_log_probabilities_are_of_logits_that_no_penalty_changed(bench, params):
    logits = np.zeros((1, 6), dtype=np.float32)
    asked = params(logprobs=-1, presence_penalty=2.0, logit_bias={3: 5.0})
    tokens, found = bench.sample(logits, (asked, [1], [2]))
    assert tokens == [3]
    np.testing.assert_allclose(found["0"].logprobs, np.log(1 / 6), rtol=1e-5)
