"""The difference of two models on the same test examples, with a 95 % interval over these examples.

Two models are right or wrong about the same patients, so their scores go up and down together; an interval of each by
itself would say too little about the difference. Where labels are classes it is Tango's score interval for the
difference of paired proportions (Statistics in Medicine 17, 1998), which holds for few examples too, and where the
models never disagree. Where labels are quantities it is a bootstrap over examples of the difference of R2.

These intervals know of test examples alone, as if either model were the only one that its training can give. What two
trainings of one method differ by is added in judgement.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

LEVEL = 0.95
Z = 1.959963984540054  # the normal quantile of (1 + LEVEL) / 2
RESAMPLES = 2000
_NUMBERS = 1 << 22  # drawn at a time
_HALVINGS = 60  # of an interval that is at most 2 wide: less than a float can tell


class Difference(NamedTuple):
    """How much better the first model is, in points of percent. NaN where it cannot be said."""

    points: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


UNKNOWN = Difference(math.nan, math.nan, math.nan)


def of_outcomes(first: Array, second: Array) -> Difference:
    """Compare which examples each of two models gets right.  # [n] bool, [n] bool"""
    n = len(first)
    if not n:
        return UNKNOWN
    return _of_counts(int((first & ~second).sum()), int((~first & second).sum()), n)


@lru_cache(maxsize=1 << 16)  # silos have few examples: the same counts come again and again
def _of_counts(won: int, lost: int, n: int) -> Difference:
    """Return Tango's interval, where so many of n examples are right with one of the models alone."""
    middle = (won - lost) / n
    low = _root(won, lost, n, -1.0, middle, Z)
    high = _root(won, lost, n, middle, 1.0, -Z)
    return Difference(*(100 * value for value in (middle, low, high)))


def _root(won: int, lost: int, n: int, low: float, high: float, z: float) -> float:
    """Return the difference at which the score statistic, which falls, is z."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break  # no number lies between them
        if _score(won, lost, n, middle) > z:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _score(won: int, lost: int, n: int, difference: float) -> float:
    """Return Tango's statistic: how far what was seen lies from this true difference, in standard deviations."""
    a, c = 2 * n, -lost * difference * (1 - difference)
    b = (2 * n - won + lost) * difference - won - lost
    rarer = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)  # the likeliest chance of `lost`, given that
    variance = n * (2 * rarer + difference * (1 - difference))
    away = won - lost - n * difference
    return away / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, away) if away else 0.0


def of_errors(first: Array, second: Array, truth: Array) -> Difference:
    """Compare the errors of two models, by R2 in percent.  # [n], [n], [n]"""
    columns = np.stack([first**2, second**2, truth, truth**2]).astype(np.float64)  # [4, n]
    n = columns.shape[1]
    if n < 2 or not np.isfinite(columns).all():
        return UNKNOWN
    found = _gain(np.concatenate([columns[:, draw].mean(2) for draw in _draws(n)], axis=1))
    found = found[np.isfinite(found)]  # a draw of equal quantities has no R2
    whole = float(_gain(columns.mean(1)[:, None])[0])
    if not math.isfinite(whole) or not len(found):
        return UNKNOWN
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return Difference(whole, low, high)


def of_squares(first: Array, second: Array, around: float) -> Difference:
    """Compare the errors of two models by R2 in percent, where the labels themselves are not at hand.  # [n], [n]

    `around`: the mean squared distance of the labels from their mean, which is taken as known: whether the interval
    leaves out zero does not depend on it.
    """
    gain = (second.astype(np.float64) ** 2 - first.astype(np.float64) ** 2) * 100 / around
    n = len(gain)
    if n < 2 or not np.isfinite(gain).all():
        return UNKNOWN
    drawn = np.concatenate([gain[draw].mean(1) for draw in _draws(n)])
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return Difference(float(gain.mean()), low, high)


def around_of(errors: Array, r2: float | None) -> float | None:
    """Return the mean squared distance of a silo's test labels from their mean, which R2 and the errors tell.

    1 - R2 is the mean of their squares over it. None where that says nothing.
    """
    squares = float(np.mean(errors.astype(np.float64) ** 2)) if len(errors) else math.nan
    if r2 is None or not math.isfinite(squares) or not squares > 0 or r2 >= 100:
        return None
    return squares / (1 - r2 / 100)


def _draws(n: int) -> Iterator[Array]:
    """Draw examples, as many as there are, again and again: the same ones each time this is called.  # [k, n]"""
    rng = np.random.default_rng(0)  # the same examples give the same interval
    step = max(1, _NUMBERS // n)
    for start in range(0, RESAMPLES, step):
        yield rng.integers(n, size=(min(step, RESAMPLES - start), n))


def _gain(means: Array) -> Array:
    """Return R2 of the first less that of the second, from means of squared errors, quantities and their squares."""
    first, second, mean, square = means  # [k]
    around = square - mean**2
    out: Array = np.full(len(first), np.nan)
    np.divide(100 * (second - first), around, out=out, where=around > 1e-12 * np.maximum(square, 1e-300))
    return out
