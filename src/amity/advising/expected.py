"""What to expect: the difference of two models at each silo, and over all silos, with 95 % intervals.

At one silo it is the paired difference on the examples that were left out, with the interval of a verdict
(`amity.worth`): over these examples, widened by what training varies by. Over silos it is the mean d of the d_i:

    d +- t sd(d_i) / sqrt(m)                        from five silos on; t: the quantile of Student's with m - 1 degrees
    d - sqrt(sum of (d_i - low_i)^2) / m, ...       with fewer, from the silos' own intervals

The spread of the d_i has both sources in it, that silos differ and that each has few examples. Fewer than five silos
say next to nothing about their spread; the second interval is about these silos, not about others like them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from amity.advising.probe import Said
from amity.worth import judgement, paired
from amity.worth.contents import Score
from amity.worth.paired import LEVEL, UNKNOWN, Difference

SPREAD = 5
"""Silos from which on their spread is known well enough."""


def at_silo(first: Said, second: Said, folds: int) -> Difference:
    """Return how much better the first models are at one silo, in points."""
    if first.each.dtype == bool:
        found = paired.of_outcomes(first.each, second.each)
    else:
        found = paired.of_errors(first.each, second.each, first.truth)
    return judgement.with_training(found, score_of(first), folds)


def over_silos(differences: Sequence[Difference]) -> Difference:
    """Return the mean difference over silos, each counting alike."""
    known = [one for one in differences if math.isfinite(one.points)]
    m = len(known)
    if not m:
        return UNKNOWN
    points = np.array([one.points for one in known])
    mean = float(points.mean())
    if m >= SPREAD:
        from scipy.special import stdtrit  # here, because it takes a quarter of a second of every process

        half = float(stdtrit(m - 1, (1 + LEVEL) / 2)) * float(points.std(ddof=1)) / math.sqrt(m)
        return Difference(mean, mean - half, mean + half)
    below = math.hypot(*(one.points - one.low for one in known)) / m
    above = math.hypot(*(one.high - one.points for one in known)) / m
    return Difference(mean, mean - below, mean + above)


def score_of(said: Said) -> Score:
    """Return what differences are about: right or wrong, or R2 of quantities."""
    return "accuracy" if said.each.dtype == bool else "r2"


def score_at(said: Said) -> float:
    """Return a silo's accuracy or R2, in percent; NaN where it is undefined."""
    if not len(said.each):
        return math.nan
    if said.each.dtype == bool:
        return 100 * float(said.each.mean())
    around = float(np.var(said.truth.astype(np.float64)))
    return 100 * (1 - float(np.mean(said.each.astype(np.float64) ** 2)) / around) if around > 0 else math.nan
