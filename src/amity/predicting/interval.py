"""The interval in which a share may lie, of which so many of so many were seen."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

LEVEL = 0.95


class Interval(NamedTuple):
    """The ends of an interval."""

    low: float
    high: float


def wilson(right: int, count: int, level: float = LEVEL) -> Interval:
    """Return Wilson's score interval of a share, between 0 and 1 (Wilson, JASA 1927).

    All p for which the number seen is within z deviations of what p would give: |right/n - p| <= z sqrt(p (1-p) / n).
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, square = right / count, z * z / count
    middle = share + square / 2
    half = z * math.sqrt(share * (1 - share) / count + square / (4 * count))
    return Interval(max(0.0, (middle - half) / (1 + square)), min(1.0, (middle + half) / (1 + square)))


def normal(mean: float, deviation: float, count: int, level: float = LEVEL) -> Interval:
    """Return the interval of a mean over so many examples, by the normal distribution."""
    half = NormalDist().inv_cdf((1 + level) / 2) * deviation / math.sqrt(count)
    return Interval(mean - half, mean + half)
