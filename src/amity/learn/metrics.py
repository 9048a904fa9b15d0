"""How good a model's outputs are on a silo's own examples. One of these numbers is a run's main score: see `metric.py`.

    balanced accuracy   mean recall over the classes that occur among the true labels
    macro F1            mean of F1 = 2 hits / (true + predicted) over the classes that occur among either
    AUROC               mean over the classes with examples of it and of others: the chance that an example of the
                        class has a higher probability of it than one of another class, ties count half

All are shares in percent, as accuracies are; NaN where undefined, as the AUROC of one class is. With two classes the
AUROC of either is that of the other: the usual binary one. Probabilities are the softmax of the outputs. An example
whose largest output is not finite is one that the model fails at: it is guessed as no class and ranked last everywhere.

Where labels are quantities:

    R2      1 - sum of squared errors / sum of squared distances from the mean of the true labels, in percent.
            100: perfect, 0: as good as that mean, below: worse. NaN where all labels are equal
    RMSE    root of the mean squared error, in the unit of the labels
    MAE     mean absolute error, in the unit of the labels

A model with an error that is not finite has failed, which is not the same as undefined: R2 is minus infinity, RMSE and
MAE are infinite.

Silos are measured together, since a call for each would cost more than the counting does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from amity.metric import METRICS as METRICS  # with their titles, units and which way is better
from amity.metric import Metric as Metric

Array = npt.NDArray[Any]

TITLES = {key: metric.title for key, metric in METRICS.items()}
"""What metrics are called."""

UNITS = tuple(key for key, metric in METRICS.items() if not metric.unit)
"""Metrics in the unit of the labels; all others are in percent."""

_LARGEST = np.finfo(np.float64).max

_BLOCK_NUMBERS = 1 << 20  # scores that are sorted at a time


def usable(outputs: Tensor) -> Tensor:
    """Which examples' outputs name a class: NaN names none, minus infinity rules one out.  # [...]"""
    return outputs.amax(-1).isfinite()


def of_classes(outputs: Tensor, y: Tensor, sizes: Sequence[int]) -> list[dict[str, float]]:
    """Every silo's metrics; examples lie one silo after the other.  # outputs [sum(sizes), classes], y [sum(sizes)]"""
    truth, guess = y.numpy(force=True), outputs.argmax(1).numpy(force=True)
    sound = usable(outputs).numpy(force=True)
    places = np.asarray(sizes, dtype=np.int64)
    silo = np.repeat(np.arange(len(places)), places)

    def count(labels: Array, which: Array | slice = slice(None)) -> Array:
        """Examples by silo and class.  # [m, classes]"""
        shape = len(places), outputs.shape[1]
        return np.bincount(silo[which] * shape[1] + labels[which], minlength=shape[0] * shape[1]).reshape(shape)

    there, guessed, hit = count(truth), count(guess, sound), count(truth, sound & (truth == guess))
    scores = _scores(outputs)
    scores[:, ~sound] = _LARGEST
    scores[truth[~sound], ~sound] = -_LARGEST
    area = _areas(scores, truth, silo, places, there)
    found = {
        "balanced_accuracy": _mean(hit / np.maximum(there, 1), there > 0),
        "macro_f1": _mean(2 * hit / np.maximum(there + guessed, 1), there + guessed > 0),
        "auroc": _mean(area, ~np.isnan(area)),
    }
    return [{name: 100 * float(values[at]) for name, values in found.items()} for at in range(len(places))]


def of_quantities(errors: Tensor, y: Tensor, sizes: Sequence[int]) -> list[dict[str, float]]:
    """Every silo's metrics, from errors (prediction less truth) in the labels' unit.  # [sum(sizes)]"""
    found = []
    for error, truth in zip(errors.double().split(list(sizes)), y.double().split(list(sizes)), strict=True):
        size = torch.where(error.isfinite(), error.abs(), math.inf)
        square = size.square().mean().item()  # NaN without examples
        around = (truth - truth.mean()).square().mean().item()
        differ = len(truth) > 0 and bool(truth.max() > truth.min())  # rounding alone may put labels off their mean
        r2 = 100 * (1 - square / around) if differ and around > 0 else math.nan
        found.append({"r2": r2, "rmse": math.sqrt(square), "mae": size.mean().item()})
    return found


def _mean(values: Array, counted: Array) -> Array:
    """Of each row, over what is counted; NaN over nothing."""
    total = np.where(counted, values, 0.0).sum(1)
    out: Array = np.full(len(values), np.nan)
    np.divide(total, counted.sum(1), out=out, where=counted.any(1))
    return out


def _scores(outputs: Tensor) -> Array:
    """Numbers in the order of the classes' probabilities, which themselves round to 0 and 1.  # [classes, n]"""
    wide = outputs.detach().double()
    if wide.shape[1] == 2:
        difference = wide[:, 1] - wide[:, 0]
        scores = torch.stack([-difference, difference])
    else:  # along rows and not along columns, where equal examples may be rounded differently and tie no more
        scores = torch.log_softmax(wide, 1).T.contiguous()
    return scores.clamp(-_LARGEST, _LARGEST).numpy(force=True)  # infinity is kept for padding


def _areas(scores: Array, truth: Array, silo: Array, sizes: Array, there: Array) -> Array:
    """Area under the curve by silo and class, from ranks (Mann, Whitney); NaN where undefined.  # [m, classes]"""
    areas = np.full(there.shape, np.nan)
    starts = np.cumsum(sizes) - sizes
    silos, labels = np.nonzero((there > 0) & (there < sizes[:, None]))
    pair = np.full(there.shape, -1)
    pair[silos, labels] = np.arange(len(silos))
    own = pair[silo, truth]  # [n]: an example is one of its own class once, of the others whenever these are measured
    value = scores[truth, np.arange(len(truth))]
    for block in _blocks(sizes[silos]):
        place = np.arange(sizes[silos[block]].max(initial=0))
        index = np.minimum(starts[silos[block], None] + place, len(truth) - 1)
        values = scores[labels[block, None], index]  # [pairs, n]
        values[place >= sizes[silos[block], None]] = np.inf  # padding is sorted last
        mine = (own >= block.start) & (own < block.stop)
        ranks = _ranks(np.sort(values, axis=1), own[mine] - block.start, value[mine])
        total = np.bincount(own[mine] - block.start, weights=ranks, minlength=len(values))
        count, whole = there[silos[block], labels[block]], sizes[silos[block]]
        areas[silos[block], labels[block]] = (total - count * (count + 1) / 2) / (count * (whole - count))
    return areas


def _blocks(widths: Array) -> Iterator[slice]:
    """Consecutive pieces of a bounded size, padding included."""
    step = max(1, _BLOCK_NUMBERS // int(widths.max(initial=1)))
    return (slice(start, start + step) for start in range(0, len(widths), step))


def _ranks(ordered: Array, row: Array, value: Array) -> Array:
    """The rank of each value in its ordered row, from 1; ties have their mean."""
    return (_below(ordered, row, value, equal=False) + _below(ordered, row, value, equal=True) + 1) / 2


def _below(ordered: Array, row: Array, value: Array, *, equal: bool) -> Array:
    """How many numbers of the row are smaller, or as small; by bisection."""
    width = ordered.shape[1]
    low, high = np.zeros(len(row), dtype=np.int64), np.full(len(row), width)
    for _ in range(width.bit_length()):
        middle = (low + high) // 2
        seen = ordered[row, np.minimum(middle, width - 1)]
        up = (low < high) & ((seen <= value) if equal else (seen < value))
        low, high = np.where(up, middle + 1, low), np.where(up, high, np.minimum(high, middle))
    return low
