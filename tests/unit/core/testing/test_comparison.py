import math

import pytest
import torch

from runtime.core.ops.registry import Tolerance
from runtime.core.testing.comparison import Deviation, deviation, worst

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("got", "expected", "error", "share"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0, 0),
        ([1.0, 2.25], [1.0, 2.0], 0.25, 0.25 / 0.3),
        ([11.5, 0.0], [10.0, 0.0], 1.5, 1.5 / 1.1),
        ([0.25, 10.0], [0.0, 10.0], 0.25, 2.5),
        ([NAN], [NAN], 0, 0),
        ([NAN], [1.0], INF, INF),
        ([1.0], [NAN], INF, INF),
        ([INF], [INF], 0, 0),
        ([INF], [-INF], INF, INF),
        ([], [], 0, 0),
    ],
)
def test_the_worst_element_counts(got, expected, error, share):
    wanted = torch.tensor(expected, dtype=torch.float64)
    found = deviation(torch.tensor(got), wanted, Tolerance(rtol=0.1, atol=0.1))
    assert found.error == pytest.approx(error, abs=1e-6)
    assert found.share == pytest.approx(share, rel=1e-6)
    assert found.acceptable == (share <= 1)


def test_narrow_dtypes_are_compared_as_what_they_hold():
    exact = torch.tensor([1 / 3], dtype=torch.float64)
    found = deviation(exact.to(torch.bfloat16), exact, Tolerance(0, 1e-2))
    assert 0 < found.error < 1e-3
    assert found.acceptable


def test_the_worst_of_several_is_that_with_the_largest_share():
    small, large = Deviation(1.0, 0.1), Deviation(0.001, 3.0)
    assert worst([small, large]) is large
    assert worst([]).acceptable
    assert str(large) == "0.001 (3 x tolerance)"
