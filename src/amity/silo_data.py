"""A silo's data as a method or a model sees them, and the score of a model on them. Part of the contract."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor


class Split(NamedTuple):
    """Examples and their labels.

    >>> part = amity.Split(torch.zeros(3, 2), torch.tensor([0, 1, 1]))
    >>> len(part.y), part.x.shape
    (3, torch.Size([3, 2]))
    """

    x: Tensor  # [n, ...]
    y: Tensor  # [n] int64: the class; floating point: the quantity


class Scale(NamedTuple):
    """How a silo's labels were standardised, where they are quantities: (quantity - zero) / unit."""

    zero: float = 0.0
    unit: float = 1.0


class Silo(NamedTuple):
    """One silo's data, as it lies at the silo.

    >>> part = amity.Split(torch.zeros(3, 2), torch.tensor([0, 1, 1]))
    >>> north = amity.Silo("north", train=part, test=part)
    >>> north.val is None
    True
    """

    name: str
    train: Split
    test: Split
    val: Split | None = None
    group: int | None = None  # the distribution it was drawn from, where that is known (simulation)
    scale: Scale = Scale()
    own: Split | None = None  # its own training examples, where `train` are not: all data in one place (simulation)


class Data(NamedTuple):
    """What a method may look at during a client's turn. Test data are not part of it."""

    train: Split
    val: Split | None
    own: Split | None = None  # the client's own training examples, where `train` are not: the pooled reference

    @property
    def mine(self) -> Split:
        """The client's own training examples."""
        return self.train if self.own is None else self.own


class Score(NamedTuple):
    """One client's evaluated model on its own test set."""

    each: Tensor  # [n] per test example: right or wrong (bool), or the error of a quantity, prediction less truth
    loss: float  # summed over the examples
    metrics: Mapping[str, float] = {}  # by name, NaN where undefined: see metrics.py
    val: float | None = None  # the main score on its validation data, where it has some
    train_loss: float | None = None  # the mean loss on its training data, where that was asked for
    scored_by: str = ""  # the metric that is the main score, where it is not accuracy, or R2 of quantities

    @property
    def right(self) -> Tensor:
        """Which test examples are right, where labels are classes."""
        return self.each

    @property
    def main(self) -> float:
        """What rounds and methods are compared by: the metric named, else accuracy, or R2 of quantities.

        NaN where it is undefined.
        """
        if self.scored_by:
            return self.metrics[self.scored_by]
        if "r2" in self.metrics:
            return self.metrics["r2"]
        return self.accuracy

    @property
    def accuracy(self) -> float:
        """The share of test examples that are right, in percent, where labels are classes. NaN without examples."""
        return 100 * int(self.right.sum()) / len(self.right) if len(self.right) else math.nan
