"""Two numbers that say how good a method is: the share of the gain that it recovers, and the share of silos it harms.

    recovered = (method - alone) / (ceiling - alone)         of mean scores over silos
    harmed    = silos that are better alone / silos that can be compared

`alone` is what each silo reaches by itself. The ceiling is the model of all data in one place, which each silo has then
gone on from with its own data. All three are trained out (`--ending auto`), or the first number would tell how far a
method lets silos go. Where the ceiling is not above alone beyond chance (a paired t-test over silos, one-sided, at
2.5 %) there is no gain to recover a share of, and the first number is undefined.

A silo is better alone if its own paired comparison on test examples says so (`judgement.py`). That is wrong at most
once in forty, so some silos are harmed by chance alone: `beyond` is the share without these,

    beyond = (harmed - WRONG) / (1 - WRONG),   at least 0

and p tells how often chance alone would give as many (`consortium.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from amity.metric import Metric
from amity.worth.consortium import CLEAR, WRONG, Counts, chance_of
from amity.worth.contents import HarmedShare, RecoveredShare


class Mean(NamedTuple):
    """A mean difference over silos with its 95 % interval, Student's: positive is better."""

    points: float
    low: float
    high: float


def mean_difference(ones: Sequence[float], others: Sequence[float], metric: Metric) -> Mean:
    """Return how much better the first scores are, silo by silo; NaN and unbounded where there are too few silos."""
    gains = [metric.gain(one, other) for one, other in zip(ones, others, strict=True)]
    gains = [gain for gain in gains if math.isfinite(gain)]
    m = len(gains)
    if not m:
        return Mean(math.nan, -math.inf, math.inf)
    mean = math.fsum(gains) / m
    if m < 2:
        return Mean(mean, -math.inf, math.inf)
    variance = math.fsum((gain - mean) ** 2 for gain in gains) / (m - 1)
    from scipy.special import stdtrit  # here, because it takes a quarter of a second of every process

    half = float(stdtrit(m - 1, 1 - CLEAR)) * math.sqrt(variance / m)
    return Mean(mean, mean - half, mean + half)


def recovered(
    method: Sequence[float], alone: Sequence[float], ceiling: Sequence[float], metric: Metric
) -> RecoveredShare:
    """Return the share of the gain that a method recovers, in percent, from each silo's scores; NaN: it has none.

    Silos without all three scores are left out.
    """
    known = [three for three in zip(method, alone, ceiling, strict=True) if not any(map(math.isnan, three))]
    if not known:
        return undefined("no silo has the scores of all three models")
    ours, theirs, best = zip(*known, strict=True)
    failed = sum(not math.isfinite(value) for value in ours)
    if failed:
        return undefined(f"models of {failed} of {len(known)} silos have failed")
    whole = mean_difference(best, theirs, metric)
    unit = "points" if metric.unit else metric.title
    if not whole.low > 0:
        span = f", 95 % interval {whole.low:+.2g} to {whole.high:+.2g}" if math.isfinite(whole.low) else ""
        reason = f"all data in one place are not above training alone beyond chance ({whole.points:+.2g} {unit}{span})"
        return undefined(reason)
    share = 100 * mean_difference(ours, theirs, metric).points / whole.points
    verb = "recovers" if share >= 0 else "is below training alone:"
    words = f"{verb} {share:.0f} % of the {whole.points:.2g} {unit} that all data in one place would bring"
    return {"share": share, "ceiling": whole.points, "words": words}


def undefined(reason: str) -> RecoveredShare:
    """Return that there is no share, and why."""
    return {"share": None, "ceiling": None, "words": f"share of the gain undefined: {reason}"}


def harmed(counts: Counts) -> HarmedShare:
    """Return the share of silos that are better alone, in percent, and what of it chance explains."""
    m = counts.compared
    if not m:
        return {"share": None, "beyond": None, "p": None, "words": "no silo can be compared with training alone"}
    share, p = counts.lose / m, chance_of(counts.lose, m)
    silos = f"{counts.lose} of {m} silos {'is' if counts.lose == 1 else 'are'} better alone ({100 * share:.1f} %)"
    than = f"{'more' if p < CLEAR else 'not clearly more'} than the {100 * WRONG:g} % that chance would give"
    words = f"{silos}, {than}" if counts.lose else f"none of {m} silos is better alone"
    return {"share": 100 * share, "beyond": 100 * max(0.0, (share - WRONG) / (1 - WRONG)), "p": p, "words": words}
