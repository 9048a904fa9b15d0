"""Numbers about runs: scores over silos, the best round, who learns from whom, paired tests, seeds.

Scores are values of the run's main score (`amity.metric`), one per silo: accuracies in percent, say. NaN stands for a
silo without test examples, or where the score is undefined: no mean counts it. Minus infinity stands for a silo whose
model has failed (infinity where lower scores are better): the mean is infinite too, and such a round is never the best
if there is another.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from amity.metric import ACCURACY, Metric

Floats = npt.NDArray[np.floating[Any]]
Whole = npt.NDArray[np.integer[Any]]

LEAST_SHARE = 1e-6  # of all weight that others must have: with less everybody is alone, and who comes next is chance
LEAST_WEIGHT = 1e-12  # between groups: a perfect separation has a large block score, not an infinite one


def _measured(scores: Sequence[float]) -> list[float]:
    """Return the scores that are defined."""
    return [value for value in scores if not math.isnan(value)]


def mean(scores: Sequence[float]) -> float:
    """Return the unweighted mean over silos: a small silo counts as much as a large one."""
    values = _measured(scores)
    if not values:
        return math.nan
    return math.fsum(values) / len(values) if all(map(math.isfinite, values)) else sum(values)


def worst(scores: Sequence[float], metric: Metric = ACCURACY) -> float:
    """Return the score of the silo that is served worst."""
    return metric.worst(_measured(scores))


def spread(scores: Sequence[float]) -> float:
    """Return the standard deviation over silos. They are all the silos there are, not a sample, so ddof is 0."""
    values = _measured(scores)
    return float(np.std(values)) if values and all(map(math.isfinite, values)) else math.nan


class Best(NamedTuple):
    """The round with the best mean test score so far; of accuracies, its mean is the BMTA."""

    round: int
    mean: float
    scores: tuple[float, ...]


def better(best: Best | None, round: int, scores: Sequence[float], metric: Metric = ACCURACY) -> Best:
    """Return the best round after one more. The first round to attain a mean keeps it."""
    new = Best(round, mean(scores), tuple(scores))
    if best is None or not math.isfinite(best.mean) or metric.beats(new.mean, best.mean):
        return new
    return best


def _sizes(weights: npt.ArrayLike) -> Floats:
    """Return how large each weight is; one that is not finite, of a run that diverged, is unknown (NaN)."""
    matrix = np.abs(np.asarray(weights, dtype=np.float64))
    return np.where(np.isfinite(matrix), matrix, math.nan)


def block_score(weights: npt.ArrayLike, groups: Sequence[int | None] | None) -> float | None:
    """Return the mean weight within groups, off the diagonal, over the mean weight between groups.

    Weights count by size, since some methods allow negative ones. NaN rows (clients that were not asked) and
    clients of no known group are left out. The mean between groups is floored at 1e-12, so that a perfect
    separation is a large number and not infinity. None where there is nothing to compare: no groups, one
    group, only groups of one, or nobody who listens to others at all.
    """
    matrix = _sizes(weights)  # [m, m]
    if groups is None:
        return None
    label = np.array([math.nan if group is None else group for group in groups], dtype=np.float64)  # [m]
    pair = ~np.isnan(matrix) & ~np.isnan(label)[:, None] & ~np.isnan(label)[None, :]
    same = label[:, None] == label[None, :]
    within = matrix[pair & same & ~np.eye(len(matrix), dtype=bool)]
    between = matrix[pair & ~same]
    others = within.sum() + between.sum()
    if not within.size or not between.size or others <= LEAST_SHARE * np.nansum(matrix):
        return None
    return float(within.mean() / max(between.mean(), LEAST_WEIGHT))


def collaborators(weights: npt.ArrayLike) -> Floats:
    """Return the effective number of clients that each client learns from, itself included: 1 / sum(w^2).

    Weights count by size, scaled to sum 1 per row: equal weights on k clients give k. NaN for clients that
    were not asked and for rows of zeros.
    """
    matrix = _sizes(weights)  # [m, m]
    total = matrix.sum(axis=1, keepdims=True)
    total[total == 0] = math.nan
    share = matrix / total
    return np.asarray(1 / (share**2).sum(axis=1))


SEVERAL = 3  # rounds after which a state of the attention is no accident


def attention_trouble(collaborators: Sequence[float | None], asked: Sequence[int]) -> str | None:
    """Return what is wrong with the attention of the last rounds, if anything; both arguments by round, latest last.

    Collapsed: everybody keeps to itself. Uniform: everybody gets the same mixture. Both are another method.
    """
    last = list(zip(collaborators, asked, strict=True))[-SEVERAL:]
    if len(last) < SEVERAL or any(number is None or count < 2 for number, count in last):
        return None
    if all(number is not None and number <= 1.01 for number, _ in last):
        return f"attention has collapsed to self for {SEVERAL} rounds: this is separate training"
    if all(number is not None and number >= 0.99 * count for number, count in last):
        return f"attention is uniform for {SEVERAL} rounds: every silo starts from the same average"
    return None


LEVEL = 0.05  # p-values below it are called clear
EXACT_PAIRS = 500  # pairs that differ, up to which a signed-rank test is exact: tenths of a second at most
EXACT_SILOS = 200  # silos in both groups together, up to which a rank-sum test is exact


class RankTest(NamedTuple):
    """A two-sided test on ranks. NaN where there was nothing to compare."""

    p: float
    least: float  # the smallest p that so many silos can give, whatever is seen
    zeros: int = 0  # pairs without a difference: dropped before ranking

    @property
    def enough(self) -> bool:
        """Whether so many silos can give a clear p-value: with four it is 0.125 even if all of them agree."""
        return not self.least >= LEVEL

    @property
    def clear(self) -> bool:
        """Whether the p-value is below `LEVEL`."""
        return self.p < LEVEL

    def __str__(self) -> str:
        """Return the p-value as text, or that there are too few silos for a clear one."""
        if math.isnan(self.p):
            return "–"
        if not self.enough:
            return f"too few silos, never below {self.least:.3g}"
        return "< 0.0001" if self.p < 1e-4 else f"{self.p:.4f}" if self.p < 0.1 else f"{self.p:.2f}"


def wilcoxon(a: Sequence[float], b: Sequence[float], digits: int = 9) -> RankTest:
    """Test whether two methods differ over the same silos: Wilcoxon's signed-rank test.

    Pairs are the silos' scores under either method. The p-value is exact, with ties too: the share of all 2^n ways
    to give the n differences a sign whose rank sum is as far out. With more than `EXACT_PAIRS` differences it is the
    normal approximation, with the variance of these very ranks and half a step of their sum for continuity. Differences
    that are equal to so many `digits` after the point are ties: binary fractions hide that 90.1 - 90.0 is 80.1 - 80.0.
    The least p is that of as many pairs as there are, if all differed and in one direction: 2 / 2^n.
    """
    if len(a) != len(b):
        raise ValueError(f"a paired test needs the same silos on both sides, got {len(a)} and {len(b)}")
    pairs = zip(a, b, strict=True)
    differences = [0.0 if x == y else x - y for x, y in pairs]  # models that have both failed are equal
    difference = np.round(_measured(differences), digits)
    changed = difference[difference != 0]
    zeros = len(difference) - len(changed)
    if not len(difference):
        return RankTest(math.nan, math.nan)
    p = _signed_ranks(_doubled_ranks(np.abs(changed)), changed > 0) if len(changed) else 1.0
    return RankTest(p, 2.0 ** (1 - len(difference)), zeros)


def _doubled_ranks(values: Floats) -> Whole:
    """Return twice the rank of each value. Equal ones share the mean of their ranks, twice which is a whole number."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((2 * np.cumsum(count) - count + 1)[place])


def _signed_ranks(ranks: Whole, positive: npt.NDArray[np.bool_]) -> float:
    """Return the p-value, from a distribution built up rank by rank: each is in the sum or not, with equal chance."""
    ranks = ranks // np.gcd.reduce(ranks)
    total = int(ranks.sum())
    smaller = min(int(ranks[positive].sum()), total - int(ranks[positive].sum()))
    if len(ranks) > EXACT_PAIRS:
        return _normal(smaller + 0.5 - total / 2, float((ranks**2).sum()) / 4)
    chance = np.zeros(smaller + 1)  # of every sum up to the smaller one
    chance[0] = 1.0
    for rank in ranks:
        chance /= 2
        if rank <= smaller:
            chance[rank:] += chance[: smaller + 1 - rank]
    return min(1.0, 2 * float(chance.sum()))


def rank_sum(a: Sequence[float], b: Sequence[float], digits: int = 9) -> RankTest:
    """Test whether two groups of different silos differ: Mann and Whitney's test. NaN is left out.

    Exact, with ties too: twice the share of all ways to choose the smaller group whose rank sum is as small, or as
    large, whichever are fewer. With more than `EXACT_SILOS` silos the normal approximation, as in `wilcoxon`. The least
    p is that of groups so large of which one is above the other throughout: 2 / (n over k).
    """
    few, many = sorted((np.round(_measured(group), digits) for group in (a, b)), key=len)
    if not len(few):
        return RankTest(math.nan, math.nan)
    ranks = _doubled_ranks(np.concatenate([few, many]))
    least = min(1.0, 2 / math.comb(len(ranks), len(few)))
    ranks = ranks - ranks.min()
    step = np.gcd.reduce(ranks)
    return RankTest(_rank_sums(ranks // step, len(few)) if step else 1.0, least)  # no step: all are equal


def _rank_sums(ranks: Whole, few: int) -> float:
    """Return the p-value of the first `few` ranks."""
    seen, count = int(ranks[:few].sum()), len(ranks)
    if count > EXACT_SILOS:
        away = abs(seen - few * float(ranks.mean()))
        return _normal(0.5 - away, few * (count - few) / (count - 1) * float(ranks.var()))
    most = int(np.sort(ranks)[-few:].sum())
    ways = np.zeros((few + 1, most + 1))  # to choose so many ranks with such a sum
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : most + 1 - rank]
    tail = min(float(ways[few, : seen + 1].sum()), float(ways[few, seen:].sum()))
    return min(1.0, 2 * tail / math.comb(count, few))


def _normal(below: float, variance: float) -> float:
    """Return the chance of a normal variable to be so far below its mean, or as far above it."""
    return math.erfc(-min(below, 0.0) / math.sqrt(2 * variance))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values of a family of tests, Holm-adjusted: this controls the family-wise error.

    The k-th smallest of n is multiplied by n - k + 1, is at least as large as the one before it and at most 1 (Holm,
    1979). NaN, a test that was not made, stays and does not count.
    """
    order = sorted((p, place) for place, p in enumerate(p_values) if not math.isnan(p))
    adjusted, largest = list(p_values), 0.0
    for k, (p, place) in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - k) * p))
        adjusted[place] = largest
    return adjusted


def family(tests: Sequence[RankTest]) -> list[RankTest]:
    """Return tests as a family: their p-values Holm-adjusted, and the least that these can be.

    An adjusted p-value never falls when one of the family rises, so the least are those where all tests have theirs.
    """
    p, least = holm([test.p for test in tests]), holm([test.least for test in tests])
    return [test._replace(p=p[place], least=least[place]) for place, test in enumerate(tests)]


def paired_over_seeds(
    one: Sequence[Sequence[float]], other: Sequence[Sequence[float]], same_silos: bool
) -> tuple[list[float], list[float]]:
    """Return pairs for a test over silos and seeds, from the scores [seed][silo] of two methods.

    Silos that are dealt anew in each seed are others each time, and each is a pair. Where every seed has the same silos
    (hospitals with their own patients), a silo is one pair, with its means over the seeds that measured both: or a test
    would take four hospitals in five seeds for twenty. Pairs of which either side is NaN are left out.
    """
    pairs = [list(zip(ours, theirs, strict=True)) for ours, theirs in zip(one, other, strict=True)]  # [seed][silo]
    groups = list(zip(*pairs, strict=True)) if same_silos else [[pair] for seed in pairs for pair in seed]
    known = [[pair for pair in group if not any(map(math.isnan, pair))] for group in groups]
    means = [tuple(mean(side) for side in zip(*group, strict=True)) for group in known if group]
    return [ours for ours, _ in means], [theirs for _, theirs in means]


class Seeds(NamedTuple):
    """A number over runs that differ in their seed only."""

    mean: float
    deviation: float  # of the sample, ddof 1; NaN for fewer than two runs

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + ("" if math.isnan(self.deviation) else f" ± {self.deviation:.2f}")


def over_seeds(values: Sequence[float]) -> Seeds:
    """Return mean and sample standard deviation: the seeds are a sample of all that there could be."""
    known = _measured(values)
    return Seeds(mean(known), statistics.stdev(known) if len(known) > 1 else math.nan)
