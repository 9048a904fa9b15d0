"""Small counts stay at a silo: what it tells of its own examples rests on at least N of them (`min_count`).

From an accuracy and the number of examples behind it the number of mistakes follows exactly, and a loss near zero says
that there was none. So a silo withholds, where N is more than 1,

    on its test data        every number, where fewer than N examples were tested, or where labels are classes and fewer
                            than N of them were right, or fewer than N wrong
                            balanced accuracy, macro F1 and AUROC also where a class has fewer than N of them; the first
                            two also where fewer than N of a class were right, or wrong
    on validation data      the score, where fewer than N examples are held out (2 N for an accuracy), or where it goes
                            by classes and one has fewer than N. An accuracy is told as if at least N were right and
                            N wrong: it only chooses the round, and silos that came and went would make rounds unequal
    on training data        the loss, where there are fewer than N
    in its uploads          scores of models on examples that it holds out, where these are fewer than N: they are zero

A number that is withheld is NaN, like one that is undefined, and `withheld` says that it is no accident. The silo
itself keeps them all: its own verdict and report rest on every example.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from amity.contract import Data, Score, Split, State
from amity.federation.messages import Measured
from amity.metric import MetricKey

OFF = 1
"""The `min_count` that withholds nothing: whatever is told rests on one example at least."""

_BY_CLASS = ("balanced_accuracy", "macro_f1", "auroc")
_BY_HITS = ("balanced_accuracy", "macro_f1")  # from which the hits in each class may be worked out


def reported(said: Measured, score: Score, data: Data, test: Split, main: MetricKey, least: int) -> Measured:
    """Return what a silo may tell of a score. `main`: the metric that is its main score; `least`: N."""
    if least == OFF:
        return said
    told = _tested(said, score.each, test.y, main, least) if said.examples else said
    if told.val is not None and data.val is not None:
        told = told._replace(val=_validated(told.val, data.val.y, main, least))
    if told.train_loss is not None and len(data.mine.y) < least:
        told = told._replace(train_loss=math.nan)
    return told if _same(told, said) else told._replace(withheld=True)


def without_scores(upload: State, keys: tuple[str, ...], data: Data, least: int) -> State:
    """Return an upload whose scores on held-out examples, `keys`, are zero where these are fewer than `least`."""
    if not keys or _judged_by(data) >= least:
        return upload
    return {key: value.new_zeros(value.shape) if key in keys else value for key, value in upload.items()}


def rows_without_scores(uploads: State, keys: tuple[str, ...], data: Sequence[Data], least: int) -> State:
    """Return the same of several silos' uploads, which are rows.  # [m, ...]"""
    few = torch.tensor([_judged_by(one) < least for one in data])
    if not keys or not few.any():
        return uploads
    return {key: _blank(value, few) if key in keys else value for key, value in uploads.items()}


def _blank(rows: Tensor, which: Tensor) -> Tensor:
    blanked = rows.clone()
    blanked[which.to(rows.device)] = 0
    return blanked


def _judged_by(data: Data) -> int:
    """The number of examples that a silo judges models by: all of its training data where it holds none out."""
    return len((data.train if data.val is None else data.val).y)


def _tested(said: Measured, each: Tensor, truth: Tensor, main: MetricKey, least: int) -> Measured:
    classes = not each.is_floating_point()
    right = int(each.sum()) if classes else 0
    if len(each) < least or classes and min(right, len(each) - right) < least:
        counted = said.examples if said.examples >= least else 0
        nothing = {name: math.nan for name in said.metrics}
        return said._replace(examples=counted, main=math.nan, loss=math.nan, metrics=nothing)
    hidden = _hidden(each, truth, least) if classes else ()
    metrics = {name: math.nan if name in hidden else value for name, value in said.metrics.items()}
    return said._replace(main=math.nan if main in hidden else said.main, metrics=metrics)


def _hidden(right: Tensor, truth: Tensor, least: int) -> tuple[str, ...]:
    """Return the metrics that rest on a class with too few examples, or with too few that are right or wrong."""
    count = truth.bincount()
    if _few(count, least):
        return _BY_CLASS
    hits = truth[right.to(truth.device)].bincount(minlength=len(count))
    there = count > 0
    few = bool(((hits < least) | (count - hits < least))[there].any())
    return _BY_HITS if few else ()


def _validated(score: float, truth: Tensor, main: MetricKey, least: int) -> float:
    """Return the score on validation data as it may be told; NaN where it may not."""
    count = len(truth)
    if count < (2 * least if main == "accuracy" else least) or main in _BY_CLASS and _few(truth.bincount(), least):
        return math.nan
    if main != "accuracy":
        return score
    return min(max(score, 100 * least / count), 100 * (count - least) / count)


def _few(count: Tensor, least: int) -> bool:
    """Whether a class that occurs has fewer examples."""
    return bool(((count > 0) & (count < least)).any())


def _same(one: Measured, other: Measured) -> bool:
    """Whether two messages say the same, with NaN for the same thing wherever it stands."""
    return repr(one) == repr(other)
