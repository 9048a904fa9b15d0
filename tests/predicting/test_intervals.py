"""Intervals of shares, against scipy's, and against what they promise."""

from __future__ import annotations

import pytest
from scipy import stats

from amity.predicting.interval import normal, wilson


@pytest.mark.parametrize(("right", "count"), [(0, 5), (3, 5), (5, 5), (17, 26), (890, 1000)])
def test_wilson_is_what_scipy_says(right: int, count: int) -> None:
    wanted = stats.binomtest(right, count).proportion_ci(0.95, method="wilson")
    assert wilson(right, count) == pytest.approx((wanted.low, wanted.high), abs=1e-12)


def test_the_interval_of_a_mean() -> None:
    low, high = normal(10.0, 2.0, 16)
    assert (low + high) / 2 == pytest.approx(10) and high - low == pytest.approx(2 * 1.959964 * 2 / 4, rel=1e-6)
