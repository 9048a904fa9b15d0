"""Expected numbers are worked out by hand; the derivation stands beside each."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amity import statistics

NAN = math.nan


def test_mean_worst_and_spread_over_silos() -> None:
    accuracies = [50.0, 70.0, 90.0]
    assert statistics.mean(accuracies) == 70.0
    assert statistics.worst(accuracies) == 50.0
    assert statistics.spread(accuracies) == pytest.approx(math.sqrt(800 / 3))


def test_a_silo_without_test_examples_takes_no_part() -> None:
    assert statistics.mean([50.0, NAN, 70.0]) == 60.0
    assert statistics.worst([NAN, 70.0]) == 70.0
    assert statistics.spread([NAN, 70.0]) == 0.0
    assert math.isnan(statistics.mean([NAN])) and math.isnan(statistics.worst([])) and math.isnan(statistics.spread([]))


def test_the_first_round_to_attain_the_best_mean_keeps_it() -> None:
    best = None
    for round, accuracies in enumerate([[NAN, NAN], [10.0, 30.0], [50.0, 70.0], [60.0, 60.0], [0.0, 99.0]], start=1):
        best = statistics.better(best, round, accuracies)
    assert best == statistics.Best(3, 60.0, (50.0, 70.0))


def test_block_score_by_hand() -> None:
    weights = [
        [0.5, 0.3, 0.1, 0.1],
        [0.2, 0.6, 0.1, 0.1],
        [0.1, 0.0, 0.5, 0.4],
        [0.0, 0.1, 0.3, 0.6],
    ]
    # within: (.3 + .2 + .4 + .3) / 4 = .3; between: (4 * .1 + .1 + 0 + 0 + .1) / 8 = .075
    assert statistics.block_score(weights, [0, 0, 1, 1]) == pytest.approx(4.0)


def test_block_score_takes_signed_weights_by_size_and_leaves_out_absent_clients() -> None:
    weights = [[1.0, -0.4, 0.1], [NAN, NAN, NAN], [0.2, -0.1, 1.0]]
    # within: |-.4| only; between: (.1 + .2 + .1) / 3
    assert statistics.block_score(weights, [7, 7, 3]) == pytest.approx(3.0)


def test_block_score_of_a_perfect_separation_is_finite() -> None:
    assert statistics.block_score(np.kron(np.eye(2), np.full((2, 2), 0.5)), [0, 0, 1, 1]) == pytest.approx(0.5e12)


@pytest.mark.parametrize(("others", "told"), [(1e-4, True), (1e-9, False), (0.0, False)])
def test_block_score_is_none_where_nobody_listens(others: float, told: bool) -> None:
    weights = np.eye(4) + others * np.arange(16).reshape(4, 4) / 15
    assert (statistics.block_score(weights, [0, 0, 1, 1]) is not None) is told


def test_block_score_leaves_out_clients_of_no_known_group() -> None:
    weights = [[0.0, 0.6, 0.2, 9.0], [0.6, 0.0, 0.2, 9.0], [0.2, 0.2, 0.0, 9.0], [9.0, 9.0, 9.0, 9.0]]
    assert statistics.block_score(weights, [0, 0, 1, None]) == pytest.approx(3.0)


@pytest.mark.parametrize("groups", [None, [0, 0, 0], [0, 1, 2], [None, None, None]])
def test_block_score_is_none_without_pairs_to_compare(groups: list[int | None] | None) -> None:
    assert statistics.block_score(np.full((3, 3), 1 / 3), groups) is None


def test_collaborators_by_hand() -> None:
    weights = [[1.0, 0.0, 0.0], [2.0, -2.0, 0.0], [0.5, 0.25, 0.25], [NAN, NAN, NAN], [0.0, 0.0, 0.0]]
    # alone: 1; two equal: 2; 1 / (1/4 + 1/16 + 1/16) = 8/3; not asked and no weight at all: unknown
    np.testing.assert_allclose(statistics.collaborators(weights), [1, 2, 8 / 3, NAN, NAN])


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=8))
def test_collaborators_lie_between_one_and_all(row: list[float]) -> None:
    number = statistics.collaborators([row])[0]
    assert 1 - 1e-9 <= number <= len(row) + 1e-9


@pytest.mark.parametrize("same_silos", [True, False])
def test_seeds_and_silos_must_be_the_same_on_both_sides(same_silos: bool) -> None:
    for one, other in (([[1.0]], [[1.0], [2.0]]), ([[1.0, 2.0]], [[1.0]])):
        with pytest.raises(ValueError):
            statistics.paired_over_seeds(one, other, same_silos)


def test_natural_silos_differ_in_number_in_no_seed() -> None:
    with pytest.raises(ValueError):
        statistics.paired_over_seeds([[1.0], [1.0, 2.0]], [[1.0], [1.0, 2.0]], same_silos=True)
    dealt = statistics.paired_over_seeds([[1.0], [1.0, 2.0]], [[1.0], [1.0, 2.0]], same_silos=False)
    assert dealt == ([1.0, 1.0, 2.0], [1.0, 1.0, 2.0])


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=9))
def test_mean_and_deviation_over_seeds(values: list[float]) -> None:
    found = statistics.over_seeds(values)
    assert found == pytest.approx((np.mean(values), np.std(values, ddof=1)), abs=1e-6)


def test_seeds_as_text() -> None:
    assert str(statistics.over_seeds([90.0, 92.0])) == "91.00 ± 1.41"
    assert str(statistics.over_seeds([90.0])) == "90.00"
    assert statistics.over_seeds([NAN, 90.0, 92.0]) == statistics.over_seeds([90.0, 92.0])  # a run without the number
    assert all(math.isnan(number) for number in statistics.over_seeds([]))


def test_attention_that_is_another_method_is_said_after_several_rounds() -> None:
    trouble = statistics.attention_trouble
    assert "separate" in (trouble([5.0, 1.0, 1.005, 1.0], [5, 5, 5, 5]) or "")
    assert "average" in (trouble([4.99, 5.0, 4.96], [5, 5, 5]) or "")
    assert "average" in (trouble([3.0, 2.0, 2.0], [3, 2, 2]) or "")
    assert trouble([1.0, 1.0], [5, 5]) is None  # not yet
    assert trouble([1.0, 1.0, 1.5], [5, 5, 5]) is None  # over
    assert trouble([1.0, 1.0, None], [5, 5, 5]) is None
    assert trouble([1.0, 1.0, 1.0], [1, 1, 1]) is None  # one silo has nobody to learn from
    assert trouble([2.5, 2.5, 2.5], [5, 5, 5]) is None


def test_a_round_with_a_failed_silo_wins_over_none() -> None:
    lost = statistics.better(None, 1, [99.0, -math.inf])
    assert lost.mean == -math.inf and statistics.worst(lost.scores) == -math.inf
    well = statistics.better(lost, 2, [1.0, NAN])
    assert well.round == 2 and statistics.better(well, 3, [100.0, -math.inf]) is well
    assert math.isnan(statistics.mean([math.inf, -math.inf])) and math.isnan(statistics.spread([1.0, -math.inf]))


def test_weights_of_a_run_that_diverged_are_unknown() -> None:
    weights = [[0.5, math.inf], [0.5, 0.5]]
    assert np.array_equal(statistics.collaborators(weights), [NAN, 2.0], equal_nan=True)
    assert statistics.block_score([[1.0, 0.2, math.inf]] * 3, [0, 0, 1]) == statistics.block_score(
        [[1.0, 0.2, NAN]] * 3, [0, 0, 1]
    )
