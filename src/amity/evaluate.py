"""Numbers about runs: scores over silos, the best round, who learns from whom, paired tests, seeds.

Scores are in percent, one per silo: accuracies, or R2 where labels are quantities. NaN stands for a silo without test
examples, or where the score is undefined: no mean counts it. Minus infinity stands for a silo whose model has failed:
the mean is minus infinity too, and such a round is never the best if there is another.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]

LEAST_SHARE = 1e-6  # of all weight, for others: with less everybody is alone, and who would come next is an accident
LEAST_WEIGHT = 1e-12


def _measured(accuracies: Sequence[float]) -> list[float]:
    return [value for value in accuracies if not math.isnan(value)]


def mean(accuracies: Sequence[float]) -> float:
    """Unweighted mean over silos: a small silo counts as much as a large one."""
    values = _measured(accuracies)
    if not values:
        return math.nan
    return math.fsum(values) / len(values) if all(map(math.isfinite, values)) else sum(values)


def worst(accuracies: Sequence[float]) -> float:
    """The accuracy of the silo that is served worst."""
    return min(_measured(accuracies), default=math.nan)


def spread(accuracies: Sequence[float]) -> float:
    """Standard deviation over silos. They are all the silos there are, not a sample, so ddof is 0."""
    values = _measured(accuracies)
    return float(np.std(values)) if values and all(map(math.isfinite, values)) else math.nan


class Best(NamedTuple):
    """The round with the best mean test accuracy so far; its mean is the BMTA."""

    round: int
    mean: float
    accuracies: tuple[float, ...]


def better(best: Best | None, round: int, accuracies: Sequence[float]) -> Best:
    """The best round after one more. The first round to attain a mean keeps it."""
    new = Best(round, mean(accuracies), tuple(accuracies))
    if best is None or not math.isfinite(best.mean) or new.mean > best.mean:
        return new
    return best


def _sizes(weights: npt.ArrayLike) -> Floats:
    """How large each weight is; one that is not finite, of a run that diverged, is as good as unknown."""
    matrix = np.abs(np.asarray(weights, dtype=np.float64))
    return np.where(np.isfinite(matrix), matrix, math.nan)


def block_score(weights: npt.ArrayLike, groups: Sequence[int | None] | None) -> float | None:
    """Mean weight within groups, off the diagonal, over the mean weight between groups.

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
    """The effective number of clients that each client learns from, itself included: 1 / sum(w^2).

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
    """What is wrong with the attention of the last rounds, if anything; both arguments by round, latest last.

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


class Wilcoxon(NamedTuple):
    """A two-sided Wilcoxon signed-rank test."""

    p: float
    zeros: int  # pairs without a difference: dropped before ranking


def wilcoxon(a: Sequence[float], b: Sequence[float], digits: int = 9) -> Wilcoxon:
    """Do two methods differ over the same silos? Pairs are the silos' accuracies under either method. NaN without any.

    Exact for up to 25 differences without ties; otherwise the normal approximation with tie correction. Differences
    that are equal to so many `digits` after the point are ties: binary fractions hide that 90.1 - 90.0 is 80.1 - 80.0.
    """
    if len(a) != len(b):
        raise ValueError(f"a paired test needs the same silos on both sides, got {len(a)} and {len(b)}")
    from scipy.stats import wilcoxon as signed_rank  # type: ignore[import-untyped, unused-ignore]  # slow to import

    difference = np.round(np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64), digits)
    difference = difference[~np.isnan(difference)]
    changed = difference[difference != 0]
    zeros = len(difference) - len(changed)
    if not len(changed):
        return Wilcoxon(1.0 if zeros else math.nan, zeros)
    ties = len(np.unique(np.abs(changed))) < len(changed)
    how = "exact" if len(changed) <= 25 and not ties else "asymptotic"
    return Wilcoxon(float(signed_rank(changed, correction=False, method=how).pvalue), zeros)


def rank_sum(a: Sequence[float], b: Sequence[float]) -> float:
    """Do two groups of different silos differ? The two-sided p-value of Mann and Whitney's test, NaN left out."""
    from scipy.stats import mannwhitneyu  # type: ignore[import-untyped, unused-ignore]  # slow to import

    return float(mannwhitneyu(a, b, nan_policy="omit").pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values of a family of tests, adjusted so that all are right at once with the chance that each one promises.

    The k-th smallest of n is multiplied by n - k + 1, is at least as large as the one before it and at most 1 (Holm,
    1979). NaN, a test that was not made, stays and does not count.
    """
    order = sorted((p, place) for place, p in enumerate(p_values) if not math.isnan(p))
    adjusted, largest = list(p_values), 0.0
    for k, (p, place) in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - k) * p))
        adjusted[place] = largest
    return adjusted


class Seeds(NamedTuple):
    """A number over runs that differ in their seed only."""

    mean: float
    deviation: float  # of the sample, ddof 1; NaN for fewer than two runs

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + ("" if math.isnan(self.deviation) else f" ± {self.deviation:.2f}")


def over_seeds(values: Sequence[float]) -> Seeds:
    """Mean and sample standard deviation: the seeds are a sample of all that there could be."""
    known = _measured(values)
    return Seeds(mean(known), statistics.stdev(known) if len(known) > 1 else math.nan)
