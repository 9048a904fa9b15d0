"""The difference of two models by metrics that are no plain share, from each test example's part in it.

A metric such as F1 is no mean over examples, so there is no count of wins and losses as `paired.py` has for accuracy.
But a difference d of two models on the same examples is made by examples, and each has its share s_i in it: what the
difference would lose, to first order, if the two models exchanged their answers to that example. If neither model
were better, every share could as well have had the other sign, and the difference would vary by

    sqrt(sum of s_i^2)

which is McNemar's variance where the metric is accuracy. It is not taken around the mean share: a difference that
rests on fewer than four examples is never clear, while a bootstrap of a class with one example finds no variance at
all and is certain. That is why verdicts use it: test sets are small, and the classes that people care about are rare.

    balanced accuracy   s_i = (right1_i - right2_i) / (K t_k)        where i is of class k, of K classes in the tests
    macro F1            s_i = mean over k of (2 (hit1_ik - hit2_ik) - F_k (said1_ik - said2_ik)) / (t_k + g_k)
    AUROC               s_i = mean over k of (V1_ik - V2_ik) / m_ik  (DeLong et al., Biometrics 44, 1988)
    RMSE, MAE           s_i = (e2_i - e1_i) / (sum of all e1 and e2)

where t_k examples are of class k and g_k are called so, F_k and g_k in the mean of both models; V_ik is the share of
the other side, of k or not of k, that example i is ranked rightly against, and m_ik how many are on its own side; e
are squared or absolute errors. The sum of the last shares, x, becomes the percentage by which the error is smaller
than the model alone's, 1 - ((1 - x) / (1 + x))^(1/2), without the root for MAE, and so do both ends of its interval.

Two models that never disagree on few examples are not known to be equal: where answers are right or wrong, half a
disagreement is added in each class.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from amity.worth.contents import Score
from amity.worth.paired import UNKNOWN, Array, Difference, Z

ADDED = 0.5
"""Disagreements that are added in each class; Agresti and Min do so with tables (Statistics in Medicine 24, 2005)."""

FURTHEST = 0.98
"""The furthest that the sum of shares of errors may lie from zero: one model errs ten times as much as the other."""


NO_R2 = "R² is undefined on its test examples: they are too few, or their labels are all equal"


class Answers(NamedTuple):
    """What one model says about a silo's test examples."""

    truth: Array  # [n] the class, or the quantity
    predicted: Array  # [n] the same of the model; -1 where it names no class
    probabilities: Array | None = None  # [n, classes]


class Shares(NamedTuple):
    """A difference with the share of each example, and the variance that is added; all as fractions of one."""

    difference: float
    each: Array  # [n]
    added: float = 0.0


def compared(score: Score, first: Answers, second: Answers) -> tuple[Difference, str]:
    """Return how much better the first model is by a metric, or why that cannot be said."""
    if not len(first.truth):
        return UNKNOWN, "it has no test examples"
    if score in ("rmse", "mae"):
        return _of_errors(first, second, power=2 if score == "rmse" else 1)
    if score == "auroc":
        found = _of_areas(first, second)
    else:
        found = {"balanced_accuracy": _of_recalls, "macro_f1": _of_f1}[score](first, second)
    return (UNKNOWN, found) if isinstance(found, str) else (interval(found), "")


def interval(shares: Shares) -> Difference:
    """Return a difference in points, with its 95 % interval over test examples."""
    half = Z * math.sqrt(float(np.square(shares.each).sum()) + shares.added)
    return Difference(*(100 * (shares.difference + way * half) for way in (0, -1, 1)))


def _of_recalls(first: Answers, second: Answers) -> Shares:
    classes, place, there = np.unique(first.truth, return_inverse=True, return_counts=True)
    lever = 1 / (len(classes) * there)  # [classes]
    won = (first.predicted == first.truth).astype(float) - (second.predicted == second.truth)
    each = won * lever[place]
    return Shares(float(each.sum()), each, ADDED * float(np.square(lever).sum()))


def _of_f1(first: Answers, second: Answers) -> Shares:
    said = [first.truth, first.predicted, second.predicted]
    classes = np.unique(np.concatenate(said))
    classes = classes[classes >= 0]
    truth, one, other = (each[:, None] == classes for each in said)  # [n, classes]
    there = truth.sum(0)

    def f1(guess: Array) -> tuple[Array, int]:
        """Return F1 of each class, and how many classes the mean of one model is over."""
        total = there + guess.sum(0)
        return 2 * (guess & truth).sum(0) / np.maximum(total, 1), int((total > 0).sum())

    (ours, many), (theirs, of_theirs) = f1(one), f1(other)
    called = there + (one.sum(0) + other.sum(0)) / 2  # t_k + g_k
    middle = ((one & truth).sum(0) + (other & truth).sum(0)) / called  # F_k
    hit = (one & truth).astype(float) - (other & truth)
    each = ((2 * hit - middle * (one.astype(float) - other)) / called).sum(1) / ((many + of_theirs) / 2)
    lever = 2 / (called * len(classes))
    return Shares(float(ours.sum() / many - theirs.sum() / of_theirs), each, ADDED * float(np.square(lever).sum()))


def _of_areas(first: Answers, second: Answers) -> Shares | str:
    if first.probabilities is None or second.probabilities is None:
        return "its record holds no probabilities, which AUROC is made from"
    ours, theirs = (ranking(first.truth, said) for said in (first.probabilities, second.probabilities))
    count = len(first.truth)
    there = {k: int((first.truth == k).sum()) for k in range(ours.shape[1])}
    classes = [k for k, many in there.items() if 0 < many < count]
    if not classes:
        return "all its test examples are of one class, for which AUROC is undefined"
    each, total = np.zeros(count), 0.0
    for k in classes:
        own = first.truth == k
        ahead = _rightly_ranked(ours[:, k], own) - _rightly_ranked(theirs[:, k], own)
        lever = np.where(own, 1 / there[k], 1 / (count - there[k])) / len(classes)
        each += ahead * lever
        total += float(ahead[own].mean()) / len(classes)
    return Shares(total, each)


def ranking(truth: Array, probabilities: Array) -> Array:
    """Return numbers in the order of the classes' probabilities: the odds, which do not round to one.  # [n, classes]

    Examples whose probabilities are not finite are ranked last: low for their own class, high for all others.
    """
    wide = probabilities.astype(np.float64)
    rest = np.stack([np.delete(wide, k, axis=1).sum(1) for k in range(wide.shape[1])], axis=1)
    odds = np.full_like(wide, np.inf)
    np.divide(wide, rest, out=odds, where=rest > 0)
    failed = ~np.isfinite(wide).all(1)
    odds[failed] = np.inf
    odds[failed, truth[failed]] = -np.inf
    return odds


def _rightly_ranked(scores: Array, own: Array) -> Array:
    """Return the share of the other side that each example is ranked rightly against; ties count half.  # [n]"""
    sides = np.sort(scores[own]), np.sort(scores[~own])
    out = np.empty(len(scores))
    for mine, other in ((own, sides[1]), (~own, sides[0])):
        ends = [np.searchsorted(other, scores[mine], side=side) for side in ("left", "right")]
        out[mine] = (ends[0] + ends[1]) / (2 * len(other))  # how many of the other side lie below
    out[~own] = 1 - out[~own]
    return out


def _of_errors(first: Answers, second: Answers, power: int) -> tuple[Difference, str]:
    """Return by how many percent of the second model's RMSE (power 2) or MAE (power 1) the first one's is smaller."""
    ours, theirs = (np.abs(one.predicted.astype(np.float64) - one.truth) ** power for one in (first, second))
    total = float(ours.sum() + theirs.sum())
    if not math.isfinite(total):
        return UNKNOWN, "a model says numbers that are not finite"
    if len(ours) < 2:
        return UNKNOWN, "one test example is not enough"
    if not total:
        return UNKNOWN, "neither model makes an error"
    each = (theirs - ours) / total
    middle, half = float(each.sum()), Z * math.sqrt(float(np.square(each).sum()))

    def smaller(x: float) -> float:
        x = min(max(x, -FURTHEST), FURTHEST)
        return 100 * (1 - math.pow((1 - x) / (1 + x), 1 / power))

    return Difference(smaller(middle), smaller(middle - half), smaller(middle + half)), ""
