"""What is said of the difference between two models at one silo: gains, better alone, no clear difference.

A verdict is about joining, not about two files of weights. Train a silo alone twice, with other random draws, and the
two models differ a little on all examples there could ever be: an interval over test examples finds that, if there are
enough of them, and joining had no part in it. So an interval is widened by what training is known to vary by
(`TRAINING`), before anything is said of it. Both parts are independent, and each end moves out by the root of the
sum of squares (Zou and Donner, Statistics in Medicine 27, 2008):

    low' = d - sqrt((d - low)^2 + (z t)^2)        high' = d + sqrt((high - d)^2 + (z t)^2)

where t is the deviation that training adds. docs/verdicts.md has how it was chosen, by measuring how often verdicts are
wrong where joining does nothing, and how much of a planted harm they find.

Over several seeds of the same silo the difference is the mean. Its interval has the mean of the ends, for the patients
of a silo do not become more by training again: seeds tell about training, which varies by t / sqrt(seeds).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from amity.metric import METRICS
from amity.worth.contents import Judgement, Score
from amity.worth.paired import UNKNOWN, Difference, Z

TRAINING: dict[Score, float] = {
    "accuracy": 2.0,
    "balanced_accuracy": 2.5,
    "macro_f1": 2.0,
    "auroc": 1.0,
    "r2": 3.0,
    "rmse": 3.0,
    "mae": 3.0,
}
"""Points that the difference of two trainings varies by, as a standard deviation, by the score that is compared.

Measured on small silos (60 to 400 training examples), where it is largest: accuracies of two trainings with different
first weights differ by 0.6 to 2.9 points, balanced accuracy and F1 by up to 2.2, AUROC by 0.5, R2 by 2.8, RMSE and MAE
by 2.6 %. With these widths at most 5 % of such pairs get a false verdict.
"""


def with_training(difference: Difference, score: Score, seeds: int = 1) -> Difference:
    """Return a difference whose interval counts what training varies by, in so many seeds, beside the test examples."""
    return widened(difference, TRAINING[score] / math.sqrt(seeds))


def widened(difference: Difference, deviation: float) -> Difference:
    """Return a difference whose interval counts a further, independent deviation, in points."""
    points, low, high = difference
    noise = Z * deviation
    return Difference(points, points - math.hypot(points - low, noise), points + math.hypot(high - points, noise))


def over_seeds(differences: Sequence[Difference], score: Score) -> Difference:
    """Return the difference over seeds of one silo, from the intervals over its test examples in each seed.

    Seeds in which there was nothing to compare are left out.
    """
    known = [one for one in differences if not math.isnan(one.points)]
    if not known:
        return UNKNOWN
    means = [math.fsum(values) / len(known) for values in zip(*known, strict=True)]
    return with_training(Difference(*means), score, len(known))


def judged(difference: Difference, score: Score = "accuracy", why: str = "") -> tuple[Judgement, str]:
    """Return the judgement on a difference, and how it is said. `why`: the reason where nothing can be compared."""
    points, unit = difference.points, unit_of(score)
    if math.isnan(points):
        return "cannot be compared", f"cannot be compared: {why}" if why else "cannot be compared"
    if not difference.clear:
        return "no clear difference", "no clear difference"
    if points > 0:
        return "gains", f"gains {points:.1f} {unit}"
    return "better alone", f"better alone, by {-points:.1f} {unit}"


def unit_of(score: Score) -> str:
    """Return what differences are in: points of a share, or percent of the error that the model alone makes."""
    return "points" if METRICS[score].unit else "%"
