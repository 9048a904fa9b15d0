"""Tests on ranks and families of them. Expected numbers are worked out by hand; the derivation stands beside each."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amity import statistics

NAN = math.nan


def test_wilcoxon_exact_by_hand() -> None:
    # Differences 1..5, all positive: 2 of the 2^5 sign patterns are as extreme, p = 2/32.
    assert statistics.wilcoxon([11, 22, 33, 44, 55], [10, 20, 30, 40, 50]) == (1 / 16, 1 / 16, 0)
    # Differences -1, 2, 3, 4, 5: the smaller rank sum is 1; sums of 0 or 1 arise in 2 patterns, p = 4/32.
    assert statistics.wilcoxon([9, 22, 33, 44, 55], [10, 20, 30, 40, 50]).p == 1 / 8


@pytest.mark.parametrize(("silos", "p"), [(4, 0.125), (5, 0.0625), (6, 0.03125)])
def test_few_silos_that_all_gain_the_same_are_no_clearer_than_signs(silos: int, p: float) -> None:
    """All +10: 2 of the 2^n sign patterns are as extreme. A normal approximation says 0.0455 and 0.0253 of 4 and 5."""
    assert statistics.wilcoxon([90.0] * silos, [80.0] * silos) == (p, p, 0)


def test_wilcoxon_drops_zeros_and_says_how_many() -> None:
    """Seven pairs could have p = 2/2^7; these have two without a difference, and so that of five."""
    assert statistics.wilcoxon([5, 7, 11, 22, 33, 44, 55], [5, 7, 10, 20, 30, 40, 50]) == (1 / 16, 1 / 64, 2)
    assert statistics.wilcoxon([5.0, 6.0], [5.0, 6.0]) == (1.0, 0.5, 2)


def test_wilcoxon_finds_the_ties_that_binary_fractions_hide() -> None:
    # |d| = .1 four times, one negative: of 16 sign patterns 5 have at most one negative, 5 at most one positive.
    assert statistics.wilcoxon([90.1, 80.1, 70.1, 60.0], [90.0, 80.0, 70.0, 60.1]).p == 10 / 16


FEW_VALUES = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 7.0, NAN, -math.inf])


@given(st.lists(st.tuples(FEW_VALUES, FEW_VALUES), max_size=9))
def test_wilcoxon_is_what_all_signs_say(pairs: list[tuple[float, float]]) -> None:
    """The definition: of all ways to sign the ranks of the differences, those whose sum is as far from the middle."""
    differences = [0.0 if a == b else a - b for a, b in pairs if not math.isnan(a) and not math.isnan(b)]
    sizes = [abs(d) for d in differences if d]
    ranks = [sum(other < size for other in sizes) + (sizes.count(size) + 1) / 2 for size in sizes]
    middle = sum(ranks) / 2
    seen = abs(sum(rank for rank, d in zip(ranks, filter(None, differences), strict=True) if d > 0) - middle)
    sums = [sum(rank for rank, plus in zip(ranks, signs, strict=True) if plus) for signs in _signs(len(ranks))]
    test = statistics.wilcoxon([a for a, _ in pairs], [b for _, b in pairs])
    if not differences:
        assert math.isnan(test.p) and math.isnan(test.least) and test.zeros == 0
        return
    assert test.p == pytest.approx(sum(abs(one - middle) >= seen for one in sums) / len(sums))
    assert test.zeros == len(differences) - len(sizes) and test.least <= test.p
    assert test.least == min(statistics.wilcoxon(range(1, len(differences) + 1), [0] * len(differences)).p, 1)


def _signs(count: int) -> list[tuple[bool, ...]]:
    return list(itertools.product((False, True), repeat=count))


@given(st.lists(FEW_VALUES, max_size=5), st.lists(FEW_VALUES, max_size=5))
def test_rank_sum_is_what_all_ways_to_choose_a_group_say(a: list[float], b: list[float]) -> None:
    """The definition: the smaller tail of the rank sum over all choices of so many silos, twice."""
    ours, theirs = ([value for value in group if not math.isnan(value)] for group in (a, b))
    test = statistics.rank_sum(a, b)
    if not ours or not theirs:
        assert math.isnan(test.p) and math.isnan(test.least)
        return
    values = ours + theirs
    ranks = [sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values]
    sums = [sum(chosen) for chosen in itertools.combinations(ranks, len(ours))]
    seen = sum(ranks[: len(ours)])
    tail = min(sum(one <= seen for one in sums), sum(one >= seen for one in sums))
    assert test.p == pytest.approx(min(1, 2 * tail / len(sums)))
    assert test == statistics.rank_sum(b, a) and test.least <= test.p + 1e-12
    assert test.least == pytest.approx(statistics.rank_sum(range(len(ours)), range(10, 10 + len(theirs))).p)


@pytest.mark.parametrize("count", [30, statistics.EXACT_PAIRS])
def test_the_exact_tests_are_those_of_scipy_where_that_is_exact(count: int) -> None:
    from scipy.stats import mannwhitneyu, wilcoxon

    rng = np.random.default_rng(count)
    a, b = rng.normal(0.1, 1, count).tolist(), rng.normal(0, 1, count).tolist()
    assert statistics.wilcoxon(a, b).p == pytest.approx(wilcoxon(a, b, method="exact").pvalue)
    a, b = a[:20], b[: min(count, 80)]
    assert statistics.rank_sum(a, b).p == pytest.approx(mannwhitneyu(a, b, method="exact").pvalue)


@pytest.mark.parametrize("values", [5, 10_000])
def test_the_normal_approximation_of_many_silos_is_close_to_the_exact_test(
    values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many ties and with hardly any."""
    rng = np.random.default_rng(values)
    a, b = rng.integers(0, values, 201).tolist(), rng.integers(0, values, 201).tolist()
    exact = statistics.wilcoxon(a, b).p, statistics.rank_sum(a[:40], b[:61]).p
    monkeypatch.setattr(statistics, "EXACT_PAIRS", 200 - sum(one == other for one, other in zip(a, b, strict=True)))
    monkeypatch.setattr(statistics, "EXACT_SILOS", 100)
    approximate = statistics.wilcoxon(a, b).p, statistics.rank_sum(a[:40], b[:61]).p
    assert approximate != exact and approximate == pytest.approx(exact, abs=0.03)


def test_groups_that_are_all_equal_do_not_differ() -> None:
    assert statistics.rank_sum([5.0] * 4, [5.0] * 3).p == 1
    assert statistics.rank_sum([5.0] * 300, [5.0] * 300).p == 1


def test_wilcoxon_leaves_out_pairs_without_a_measurement() -> None:
    assert statistics.wilcoxon([11, 22, 33, 44, 55, NAN], [10, 20, 30, 40, 50, 1]) == (1 / 16, 1 / 16, 0)


def test_the_rank_sum_of_two_groups_by_hand() -> None:
    # All of a below all of b: 2 of the C(6, 3) = 20 equally likely orders are as far apart.
    assert statistics.rank_sum([1, 2, 3], [4, 5, 6]).p == pytest.approx(2 / 20)
    assert statistics.rank_sum([4, 5, 6, NAN], [1, 2, 3]).p == pytest.approx(2 / 20)
    assert statistics.rank_sum([1, 4], [2, 3]).p == pytest.approx(1)


def test_a_test_says_where_there_are_too_few_silos() -> None:
    four, eight = statistics.wilcoxon([9.0] * 4, [8.0] * 4), statistics.wilcoxon([9.0] * 8, [8.0] * 8)
    assert not four.enough and not four.clear and str(four) == "too few silos, never below 0.125"
    assert eight.enough and eight.clear and str(eight) == "0.0078"
    assert str(statistics.wilcoxon([9.0] * 20, [8.0] * 20)) == "< 0.0001"
    assert str(statistics.wilcoxon([9.0] * 9, [9.0] * 9)) == "1.00" and str(statistics.wilcoxon([], [])) == "–"


def test_a_family_of_tests_says_what_it_could_say_at_best() -> None:
    """Eight silos: 2/2^8 = 1/128. In a family of eight 1/16 at best: no number of agreeing silos makes it clear."""
    test = statistics.wilcoxon([9.0] * 8, [8.0] * 8)
    (alone,) = statistics.family([test])
    assert alone == test and statistics.family([]) == []
    assert statistics.family([test] * 8) == [(1 / 16, 1 / 16, 0)] * 8
    nothing, other = statistics.family([statistics.wilcoxon([], []), test])
    assert math.isnan(nothing.p) and other == test  # a test that was not made is none of the family
    # One of more silos takes the first place: the two others are two, at best 2/128.
    many = statistics.wilcoxon([9.0] * 20, [8.0] * 20)
    assert [one.least for one in statistics.family([test, many, test])] == [2 / 128, 3 * 2 / 2**20, 2 / 128]


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=7))
def test_no_adjusted_p_value_is_below_its_least(numbers: list[tuple[float, float]]) -> None:
    tests = statistics.family([statistics.RankTest(max(pair), min(pair)) for pair in numbers])
    assert all(test.least <= test.p for test in tests)


def test_silos_that_are_dealt_anew_count_in_every_seed_and_natural_ones_once() -> None:
    one, other = [[10.0, 20.0], [14.0, NAN]], [[1.0, 2.0], [3.0, 4.0]]  # [seed][silo]
    assert statistics.paired_over_seeds(one, other, same_silos=False) == ([10.0, 20.0, 14.0], [1.0, 2.0, 3.0])
    # Means over the seeds that measured both: the second silo's second seed did not.
    assert statistics.paired_over_seeds(one, other, same_silos=True) == ([12.0, 20.0], [2.0, 2.0])
    assert statistics.paired_over_seeds([[NAN]], [[1.0]], same_silos=True) == ([], [])
    assert (
        statistics.paired_over_seeds([], [], same_silos=True) == statistics.paired_over_seeds([], [], False) == ([], [])
    )


def test_wilcoxon_refuses_unequal_lengths() -> None:
    with pytest.raises(ValueError, match="same silos"):
        statistics.wilcoxon([1.0], [1.0, 2.0])


def test_holm_by_hand() -> None:
    """Sorted .01 .02 .03 .04, times 4 3 2 1: .04 .06 .06 .04, and none below the one before it."""
    assert statistics.holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert statistics.holm([0.5, 0.6]) == [1.0, 1.0] and statistics.holm([0.2]) == [0.2] and statistics.holm([]) == []
    left, right = statistics.holm([NAN, 0.03])
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
    adjusted = statistics.holm(p_values)
    equal = {place for place, p in enumerate(adjusted) if p <= level}
    assert equal == rejected
    assert all(old <= new <= 1 for old, new in zip(p_values, adjusted, strict=True))


def test_without_a_silo_in_common_no_test_is_made() -> None:
    nothing = statistics.wilcoxon([1.0, NAN], [NAN, 2.0])
    assert math.isnan(nothing.p) and nothing.zeros == 0
    assert statistics.holm([nothing.p, 0.02])[1] == 0.02  # it is none of the family
