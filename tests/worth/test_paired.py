"""Intervals for paired differences, against published numbers, brute force and their promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from amity.worth.paired import of_errors, of_outcomes


def outcomes(won: int, lost: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    first[:won] = True
    second[won : won + lost] = True
    return first, second


def test_it_is_near_the_usual_interval_where_there_are_many_examples() -> None:
    """Agresti, Categorical Data Analysis, section 10.1.2: 150 and 86 of 1600 changed their mind, -0.059 to -0.021."""
    found = of_outcomes(*outcomes(86, 150, 1600))
    assert found.points == pytest.approx(-4.0)
    assert found.low == pytest.approx(-5.9, abs=0.1) and found.high == pytest.approx(-2.1, abs=0.1)


@pytest.mark.parametrize(("won", "lost", "n"), [(7, 2, 30), (0, 4, 12), (5, 5, 40), (1, 0, 3)])
def test_its_ends_are_where_the_score_test_just_holds(won: int, lost: int, n: int) -> None:
    """The likeliest chances under each end are found by a search, not by Tango's formula."""
    found = of_outcomes(*outcomes(won, lost, n))
    for end in (found.low / 100, found.high / 100):

        def unlikely(rarer: float, end: float = end) -> float:
            chances = np.array([rarer + end, rarer, 1 - 2 * rarer - end])
            counts = np.array([won, lost, n - won - lost])
            return -float(np.where(counts > 0, counts * np.log(np.maximum(chances, 1e-300)), 0).sum())

        low, high = max(0.0, -end), (1 - end) / 2
        best = optimize.minimize_scalar(unlikely, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x
        best = min((best, low, high), key=unlikely)
        variance = n * (2 * best + end - end**2)
        assert abs(won - lost - n * end) / math.sqrt(variance) == pytest.approx(1.96, abs=2e-3)


def test_models_that_never_disagree_are_not_known_to_be_equal() -> None:
    found = of_outcomes(*outcomes(0, 0, 20))
    edge = 100 * 1.96**2 / (20 + 1.96**2)
    assert (
        found.points == 0
        and found.high == pytest.approx(edge, rel=1e-3)
        and found.low == pytest.approx(-edge, rel=1e-3)
    )
    assert not found.clear


@pytest.mark.parametrize("chances", [(0.2, 0.1), (0.05, 0.05), (0.3, 0.02)])
def test_it_holds_the_true_difference_as_often_as_it_says(chances: tuple[float, float]) -> None:
    """Over all that can be seen of 25 examples, each with its chance."""
    n, held = 25, 0.0
    for won in range(n + 1):
        for lost in range(n + 1 - won):
            chance = stats.multinomial.pmf([won, lost, n - won - lost], n, [*chances, 1 - sum(chances)])
            if chance > 1e-9:
                found = of_outcomes(*outcomes(won, lost, n))
                held += chance * (found.low <= 100 * (chances[0] - chances[1]) <= found.high)
    assert 0.93 < held < 0.99


def test_more_wins_move_it_up_and_sides_can_be_exchanged() -> None:
    first, second = outcomes(9, 4, 50)
    one, other = of_outcomes(first, second), of_outcomes(second, first)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
    assert of_outcomes(*outcomes(10, 4, 50)).low > one.low
    assert of_outcomes(*outcomes(20, 0, 50)).clear and not one.clear


def test_errors_are_compared_by_r2() -> None:
    rng = np.random.default_rng(1)
    truth = rng.normal(size=400)
    good, bad = rng.normal(scale=0.3, size=400), rng.normal(scale=0.6, size=400)
    found = of_errors(good, bad, truth)
    around = np.mean((truth - truth.mean()) ** 2)
    assert found.points == pytest.approx(100 * (np.mean(bad**2) - np.mean(good**2)) / around)
    assert found.low < found.points < found.high and found.clear
    share = found.points / 100  # by the delta method: the quantities' own spread is drawn anew as well
    spread = np.std(100 * (bad**2 - good**2 - share * (truth - truth.mean()) ** 2) / around) / math.sqrt(400)
    assert found.high - found.low == pytest.approx(2 * 1.96 * spread, rel=0.1)
    assert of_errors(good, bad, truth) == found


@pytest.mark.parametrize(
    ("first", "truth"), [([math.inf, 0.0, 1.0], [1.0, 2.0, 3.0]), ([1.0, 2.0, 3.0], [5.0, 5.0, 5.0]), ([], [])]
)
def test_what_cannot_be_compared_is_not(first: list[float], truth: list[float]) -> None:
    found = of_errors(np.array(first), np.zeros(len(first)), np.array(truth))
    assert math.isnan(found.points) and not found.clear
    assert math.isnan(of_outcomes(np.array([], dtype=bool), np.array([], dtype=bool)).points)
