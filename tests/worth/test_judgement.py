"""Verdicts on one silo: what training varies by, several seeds, and what is said of a difference."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amity.metric import METRICS
from amity.worth.judgement import TRAINING, judged, over_seeds, widened, with_training
from amity.worth.paired import UNKNOWN, Difference, of_outcomes, of_squares

outcomes = st.integers(1, 60).flatmap(
    lambda n: st.tuples(*(st.lists(st.booleans(), min_size=n, max_size=n) for _ in range(2)))
)


def test_training_widens_an_interval_by_the_root_of_squares() -> None:
    noise = 1.96 * TRAINING["accuracy"]  # 3 and 4 are two sides of a triangle with the third of 5
    found = with_training(Difference(10.0, 10.0 - 3 / 4 * noise, 10.0 + 4 / 3 * noise), "accuracy")
    assert found.low == pytest.approx(10.0 - 5 / 4 * noise, rel=1e-4)
    assert found.high == pytest.approx(10.0 + 5 / 3 * noise, rel=1e-4)
    assert all(math.isnan(value) for value in with_training(UNKNOWN, "r2"))


def test_many_seeds_leave_the_interval_over_patients() -> None:
    seen = Difference(2.0, 1.0, 4.0)
    many = over_seeds([seen] * 10_000, "accuracy")
    assert many.points == pytest.approx(2.0)
    assert (many.low, many.high) == pytest.approx((1.0, 4.0), abs=2e-3)
    assert over_seeds([seen], "r2") == with_training(seen, "r2") == widened(seen, 3.0)
    assert over_seeds([UNKNOWN, seen, UNKNOWN], "accuracy") == with_training(seen, "accuracy")
    assert over_seeds([seen] * 4, "accuracy") == widened(seen, 1.0)
    assert math.isnan(over_seeds([UNKNOWN], "r2").points) and math.isnan(over_seeds([], "r2").points)


@given(outcomes)
def test_two_models_that_change_sides_change_the_sign(sides: tuple[list[bool], list[bool]]) -> None:
    first, second = (np.array(side) for side in sides)
    one, other = (with_training(of_outcomes(*pair), "accuracy") for pair in ((first, second), (second, first)))
    assert one.points == -other.points
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=1e-9)
    opposite = {"gains": "better alone", "better alone": "gains"}
    assert judged(other)[0] == opposite.get(judged(one)[0], judged(one)[0])


@given(outcomes)
def test_a_verdict_is_never_given_where_the_usual_interval_holds_zero(sides: tuple[list[bool], list[bool]]) -> None:
    seen = of_outcomes(*(np.array(side) for side in sides))
    wide = with_training(seen, "accuracy")
    assert wide.low <= seen.low <= seen.points <= seen.high <= wide.high
    assert seen.clear or not wide.clear


@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(-50, 50)), min_size=2, max_size=30))
def test_errors_of_quantities_change_sides_too(pairs: list[tuple[float, float]]) -> None:
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    one, other = of_squares(first, second, 4.0), of_squares(second, first, 4.0)
    assert one.points == pytest.approx(-other.points)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=1e-6)


def test_errors_without_labels_are_compared_as_those_with() -> None:
    """By hand: squares of 1 and 4 over a spread of 10 are 30 points apart; the t-interval is near the bootstrap's."""
    assert of_squares(np.full(5, 1.0), np.full(5, 2.0), 10.0) == pytest.approx((30.0, 30.0, 30.0))
    rng = np.random.default_rng(3)
    first, second = rng.normal(scale=0.3, size=500), rng.normal(scale=0.6, size=500)
    found = of_squares(first, second, 2.0)
    gain = 100 * (second**2 - first**2) / 2.0
    assert found.points == pytest.approx(gain.mean())
    half = 1.96 * gain.std(ddof=1) / math.sqrt(500)
    assert found.high - found.low == pytest.approx(2 * half, rel=0.1)
    assert math.isnan(of_squares(np.array([np.inf, 1.0]), np.ones(2), 1.0).points)
    assert math.isnan(of_squares(np.ones(1), np.ones(1), 1.0).points)


def test_words_have_the_unit_of_the_score() -> None:
    gain, loss = Difference(4.25, 1.0, 8.0), Difference(-4.25, -8.0, -1.0)
    assert judged(gain) == judged(gain, "auroc") == ("gains", "gains 4.2 points")
    assert judged(gain, "rmse") == ("gains", "gains 4.2 %")
    assert judged(loss, "mae") == ("better alone", "better alone, by 4.2 %")
    assert judged(UNKNOWN) == ("cannot be compared", "cannot be compared")
    assert judged(UNKNOWN, "auroc", "one class")[1] == "cannot be compared: one class"
    assert set(TRAINING) == set(METRICS)
