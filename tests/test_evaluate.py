"""Expected numbers are worked out by hand; the derivation stands beside each."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amity import evaluate

NAN = math.nan


def test_mean_worst_and_spread_over_silos() -> None:
    accuracies = [50.0, 70.0, 90.0]
    assert evaluate.mean(accuracies) == 70.0
    assert evaluate.worst(accuracies) == 50.0
    assert evaluate.spread(accuracies) == pytest.approx(math.sqrt(800 / 3))


def test_a_silo_without_test_examples_takes_no_part() -> None:
    assert evaluate.mean([50.0, NAN, 70.0]) == 60.0
    assert evaluate.worst([NAN, 70.0]) == 70.0
    assert evaluate.spread([NAN, 70.0]) == 0.0
    assert math.isnan(evaluate.mean([NAN])) and math.isnan(evaluate.worst([])) and math.isnan(evaluate.spread([]))


def test_the_first_round_to_attain_the_best_mean_keeps_it() -> None:
    best = None
    for round, accuracies in enumerate([[NAN, NAN], [10.0, 30.0], [50.0, 70.0], [60.0, 60.0], [0.0, 99.0]], start=1):
        best = evaluate.better(best, round, accuracies)
    assert best == evaluate.Best(3, 60.0, (50.0, 70.0))


def test_block_score_by_hand() -> None:
    weights = [
        [0.5, 0.3, 0.1, 0.1],
        [0.2, 0.6, 0.1, 0.1],
        [0.1, 0.0, 0.5, 0.4],
        [0.0, 0.1, 0.3, 0.6],
    ]
    # within: (.3 + .2 + .4 + .3) / 4 = .3; between: (4 * .1 + .1 + 0 + 0 + .1) / 8 = .075
    assert evaluate.block_score(weights, [0, 0, 1, 1]) == pytest.approx(4.0)


def test_block_score_takes_signed_weights_by_size_and_leaves_out_absent_clients() -> None:
    weights = [[1.0, -0.4, 0.1], [NAN, NAN, NAN], [0.2, -0.1, 1.0]]
    # within: |-.4| only; between: (.1 + .2 + .1) / 3
    assert evaluate.block_score(weights, [7, 7, 3]) == pytest.approx(3.0)


def test_block_score_of_a_perfect_separation_is_finite() -> None:
    assert evaluate.block_score(np.kron(np.eye(2), np.full((2, 2), 0.5)), [0, 0, 1, 1]) == pytest.approx(0.5e12)


@pytest.mark.parametrize(("others", "told"), [(1e-4, True), (1e-9, False), (0.0, False)])
def test_block_score_is_none_where_nobody_listens(others: float, told: bool) -> None:
    weights = np.eye(4) + others * np.arange(16).reshape(4, 4) / 15
    assert (evaluate.block_score(weights, [0, 0, 1, 1]) is not None) is told


def test_block_score_leaves_out_clients_of_no_known_group() -> None:
    weights = [[0.0, 0.6, 0.2, 9.0], [0.6, 0.0, 0.2, 9.0], [0.2, 0.2, 0.0, 9.0], [9.0, 9.0, 9.0, 9.0]]
    assert evaluate.block_score(weights, [0, 0, 1, None]) == pytest.approx(3.0)


@pytest.mark.parametrize("groups", [None, [0, 0, 0], [0, 1, 2], [None, None, None]])
def test_block_score_is_none_without_pairs_to_compare(groups: list[int | None] | None) -> None:
    assert evaluate.block_score(np.full((3, 3), 1 / 3), groups) is None


def test_collaborators_by_hand() -> None:
    weights = [[1.0, 0.0, 0.0], [2.0, -2.0, 0.0], [0.5, 0.25, 0.25], [NAN, NAN, NAN], [0.0, 0.0, 0.0]]
    # alone: 1; two equal: 2; 1 / (1/4 + 1/16 + 1/16) = 8/3; not asked and no weight at all: unknown
    np.testing.assert_allclose(evaluate.collaborators(weights), [1, 2, 8 / 3, NAN, NAN])


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=8))
def test_collaborators_lie_between_one_and_all(row: list[float]) -> None:
    number = evaluate.collaborators([row])[0]
    assert 1 - 1e-9 <= number <= len(row) + 1e-9


def test_wilcoxon_exact_by_hand() -> None:
    # Differences 1..5, all positive: 2 of the 2^5 sign patterns are as extreme, p = 2/32.
    p, zeros = evaluate.wilcoxon([11, 22, 33, 44, 55], [10, 20, 30, 40, 50])
    assert p == pytest.approx(1 / 16) and zeros == 0
    # Differences -1, 2, 3, 4, 5: the smaller rank sum is 1; sums of 0 or 1 arise in 2 patterns, p = 4/32.
    assert evaluate.wilcoxon([9, 22, 33, 44, 55], [10, 20, 30, 40, 50]).p == pytest.approx(1 / 8)


def test_wilcoxon_drops_zeros_and_says_how_many() -> None:
    p, zeros = evaluate.wilcoxon([5, 7, 11, 22, 33, 44, 55], [5, 7, 10, 20, 30, 40, 50])
    assert p == pytest.approx(1 / 16) and zeros == 2
    assert evaluate.wilcoxon([5.0, 6.0], [5.0, 6.0]) == (1.0, 2)


def test_wilcoxon_with_ties_uses_the_corrected_normal_approximation() -> None:
    # |d| = .1 four times, one negative: every rank is 2.5, the smaller sum 2.5, its mean 5, its variance
    # (4 * 5 * 9 - (4^3 - 4) / 2) / 24 = 6.25, so z = -1. The decimals make ties that rounding must find.
    p = evaluate.wilcoxon([90.1, 80.1, 70.1, 60.0], [90.0, 80.0, 70.0, 60.1]).p
    assert p == pytest.approx(math.erfc(1 / math.sqrt(2)))


def test_wilcoxon_of_many_pairs_uses_the_normal_approximation() -> None:
    # 26 differences 1..26, all positive: W = 0, mean 26 * 27 / 4, variance 26 * 27 * 53 / 24.
    z = (26 * 27 / 4) / math.sqrt(26 * 27 * 53 / 24)
    assert evaluate.wilcoxon(list(range(1, 27)), [0.0] * 26).p == pytest.approx(math.erfc(z / math.sqrt(2)))


def test_wilcoxon_leaves_out_pairs_without_a_measurement() -> None:
    p, zeros = evaluate.wilcoxon([11, 22, 33, 44, 55, NAN], [10, 20, 30, 40, 50, 1])
    assert p == pytest.approx(1 / 16) and zeros == 0


def test_the_rank_sum_of_two_groups_by_hand() -> None:
    # All of a below all of b: 2 of the C(6, 3) = 20 equally likely orders are as far apart.
    assert evaluate.rank_sum([1, 2, 3], [4, 5, 6]) == pytest.approx(2 / 20)
    assert evaluate.rank_sum([4, 5, 6, NAN], [1, 2, 3]) == pytest.approx(2 / 20)
    assert evaluate.rank_sum([1, 4], [2, 3]) == pytest.approx(1)


def test_wilcoxon_refuses_unequal_lengths() -> None:
    with pytest.raises(ValueError, match="same silos"):
        evaluate.wilcoxon([1.0], [1.0, 2.0])


def test_holm_by_hand() -> None:
    """Sorted .01 .02 .03 .04, times 4 3 2 1: .04 .06 .06 .04, and none below the one before it."""
    assert evaluate.holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert evaluate.holm([0.5, 0.6]) == [1.0, 1.0] and evaluate.holm([0.2]) == [0.2] and evaluate.holm([]) == []
    left, right = evaluate.holm([NAN, 0.03])
    assert math.isnan(left) and right == 0.03


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.999))
def test_holm_rejects_what_the_step_down_procedure_rejects(p_values: list[float], level: float) -> None:
    """The definition: from the smallest on, reject while p <= level / hypotheses left, then stop."""
    rejected: set[int] = set()
    for place in sorted(range(len(p_values)), key=p_values.__getitem__):
        left = len(p_values) - len(rejected)
        if p_values[place] * left > level:
            break
        rejected.add(place)
    adjusted = evaluate.holm(p_values)
    equal = {place for place, p in enumerate(adjusted) if p <= level}
    assert equal == rejected
    assert all(old <= new <= 1 for old, new in zip(p_values, adjusted, strict=True))


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=9))
def test_mean_and_deviation_over_seeds(values: list[float]) -> None:
    found = evaluate.over_seeds(values)
    assert found == pytest.approx((np.mean(values), np.std(values, ddof=1)), abs=1e-6)


def test_seeds_as_text() -> None:
    assert str(evaluate.over_seeds([90.0, 92.0])) == "91.00 ± 1.41"
    assert str(evaluate.over_seeds([90.0])) == "90.00"
    assert evaluate.over_seeds([NAN, 90.0, 92.0]) == evaluate.over_seeds([90.0, 92.0])  # a run without the number
    assert all(math.isnan(number) for number in evaluate.over_seeds([]))


def test_attention_that_is_another_method_is_said_after_several_rounds() -> None:
    trouble = evaluate.attention_trouble
    assert "separate" in (trouble([5.0, 1.0, 1.005, 1.0], [5, 5, 5, 5]) or "")
    assert "average" in (trouble([4.99, 5.0, 4.96], [5, 5, 5]) or "")
    assert "average" in (trouble([3.0, 2.0, 2.0], [3, 2, 2]) or "")
    assert trouble([1.0, 1.0], [5, 5]) is None  # not yet
    assert trouble([1.0, 1.0, 1.5], [5, 5, 5]) is None  # over
    assert trouble([1.0, 1.0, None], [5, 5, 5]) is None
    assert trouble([1.0, 1.0, 1.0], [1, 1, 1]) is None  # one silo has nobody to learn from
    assert trouble([2.5, 2.5, 2.5], [5, 5, 5]) is None


def test_a_round_with_a_failed_silo_wins_over_none() -> None:
    lost = evaluate.better(None, 1, [99.0, -math.inf])
    assert lost.mean == -math.inf and evaluate.worst(lost.accuracies) == -math.inf
    well = evaluate.better(lost, 2, [1.0, NAN])
    assert well.round == 2 and evaluate.better(well, 3, [100.0, -math.inf]) is well
    assert math.isnan(evaluate.mean([math.inf, -math.inf])) and math.isnan(evaluate.spread([1.0, -math.inf]))


def test_without_a_silo_in_common_no_test_is_made() -> None:
    nothing = evaluate.wilcoxon([1.0, NAN], [NAN, 2.0])
    assert math.isnan(nothing.p) and nothing.zeros == 0
    assert evaluate.holm([nothing.p, 0.02])[1] == 0.02  # it is none of the family


def test_weights_of_a_run_that_diverged_are_unknown() -> None:
    weights = [[0.5, math.inf], [0.5, 0.5]]
    assert np.array_equal(evaluate.collaborators(weights), [NAN, 2.0], equal_nan=True)
    assert evaluate.block_score([[1.0, 0.2, math.inf]] * 3, [0, 0, 1]) == evaluate.block_score(
        [[1.0, 0.2, NAN]] * 3, [0, 0, 1]
    )
