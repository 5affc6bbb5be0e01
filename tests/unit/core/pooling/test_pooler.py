"""Hidden states become vectors, whole or in parts, and a bad one harms no other."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from runtime.core.pooling.params import Pooling, PoolingType
from runtime.core.pooling.pooler import PoolingProgress, finish, pool

HIDDEN = torch.randn(9, 5, generator=torch.Generator().manual_seed(2))
EXPECTED = {
    PoolingType.MEAN: HIDDEN.mean(0, keepdim=True),
    PoolingType.CLS: HIDDEN[:1],
    PoolingType.LAST: HIDDEN[-1:],
    PoolingType.ALL: HIDDEN,
}


class Host:
    """Memory that is the host's own."""

    def copy_to_host(self, source):
        return source


@pytest.mark.parametrize("kind", PoolingType)
@pytest.mark.parametrize("sizes", [(9,), (1, 8), (4, 1, 4), (1,) * 9])
def test_parts_give_the_same_as_the_whole(kind, sizes):
    progress = PoolingProgress(Pooling(kind, normalize=False))
    for part in HIDDEN.split(sizes):
        # The runner writes its next step over what it gave for this one.
        part = part.clone()
        progress.take(part)
        part.zero_()
    torch.testing.assert_close(progress.rows(), EXPECTED[kind])


def test_a_sum_of_many_is_float32_whatever_the_model_is():
    progress = PoolingProgress(Pooling(PoolingType.MEAN, normalize=False))
    for _ in range(600):
        progress.take(torch.full((1, 3), 1.0, dtype=torch.bfloat16))
    assert progress.rows().tolist() == [[1.0] * 3]


def numbers(vectors):
    return np.frombuffer(vectors.data, "<f4").reshape(vectors.shape)


def test_vectors_are_cut_and_then_brought_to_length_one():
    rows = np.array([[3.0, 4.0, 12.0]], dtype=np.float32)
    cut = finish(rows, Pooling(PoolingType.MEAN, True, dimensions=2))
    np.testing.assert_allclose(numbers(cut), [0.6, 0.8])
    whole = finish(rows, Pooling(PoolingType.MEAN, True))
    np.testing.assert_allclose(numbers(whole), np.array([3, 4, 12]) / 13)
    assert numbers(finish(rows, Pooling(PoolingType.MEAN, False))).tolist() == [3, 4, 12]
    zero = finish(np.zeros((1, 3), np.float32), Pooling(PoolingType.MEAN, True))
    assert numbers(zero).tolist() == [0, 0, 0]


def test_each_tokens_vector_has_its_own_length():
    rows = np.array([[3.0, 4.0], [0.0, 9.0]], dtype=np.float32)
    found = finish(rows, Pooling(PoolingType.ALL, True))
    np.testing.assert_allclose(numbers(found), [[0.6, 0.8], [0, 1]])


def state(request_id, computed, total, kind=PoolingType.MEAN):
    progress = PoolingProgress(Pooling(kind, normalize=False))
    return SimpleNamespace(
        request_id=request_id, num_computed=computed, num_tokens=total, pooling=progress
    )


def step(states, counts):
    start = np.array([0, *np.cumsum(counts)], dtype=np.int32)
    return SimpleNamespace(states=states, counts=np.array(counts), query_start=start)


def test_a_step_gives_what_ends_in_it():
    first, second = state("a", 0, 2), state("b", 0, 5)
    third = state("c", 0, 3, PoolingType.ALL)
    result = pool(step([first, second, third], [2, 4, 3]), HIDDEN, Host())
    assert set(result.pooled) == {"a", "c"}
    assert result.sampled == {}
    np.testing.assert_allclose(numbers(result.pooled["a"]), HIDDEN[:2].mean(0), rtol=1e-6)
    np.testing.assert_array_equal(numbers(result.pooled["c"]), HIDDEN[6:9])
    second.num_computed = 4
    result = pool(step([second], [1]), HIDDEN[:1], Host())
    expected = torch.cat((HIDDEN[2:6], HIDDEN[:1])).mean(0)
    np.testing.assert_allclose(numbers(result.pooled["b"]), expected, rtol=1e-5)


def test_a_step_in_which_nothing_ends():
    assert pool(step([state("a", 0, 20)], [9]), HIDDEN, Host()).pooled == {}


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_their_requests_failure(bad):
    hidden = HIDDEN.clone()
    hidden[0, 3] = bad
    result = pool(step([state("a", 0, 2), state("b", 0, 7)], [2, 7]), hidden, Host())
    assert set(result.failed) == {"a"}
    assert set(result.pooled) == {"b"}
