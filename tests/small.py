"""The small federations of `amity.testing`, and problems with closed forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from amity.contract import Silo, Split
from amity.federation.messages import Measured
from amity.federation.reports import Round
from amity.learn.task import Task
from amity.methods import build as build
from amity.testing.federation import CLASSES as CLASSES
from amity.testing.federation import FEATURES as FEATURES
from amity.testing.federation import NAMES as NAMES
from amity.testing.federation import SIZES as SIZES
from amity.testing.federation import Seen as Seen
from amity.testing.federation import States as States
from amity.testing.federation import batchnorm as batchnorm
from amity.testing.federation import copied as copied
from amity.testing.federation import dropout as dropout
from amity.testing.federation import flat as flat
from amity.testing.federation import fresh_task as fresh_task
from amity.testing.federation import linear as linear
from amity.testing.federation import mlp as mlp
from amity.testing.federation import models_of as models_of
from amity.testing.federation import near as near
from amity.testing.federation import opened as opened
from amity.testing.federation import plan_of as plan_of
from amity.testing.federation import relabelled as relabelled
from amity.testing.federation import run as run
from amity.testing.federation import same as same
from amity.testing.federation import silo as silo
from amity.testing.federation import silos as silos
from amity.testing.federation import solver_of as solver_of
from amity.testing.federation import task as task
from amity.testing.federation import turn_of as turn_of
from amity.testing.watched import Hostile as Hostile

DIFFERENT = ("separate", "fedavg", "fedavg-ft", "fedamp", "apple", "scaffold", "ditto", "fedfomo", "twin", "accord")
"""Methods that differ in what they send and keep: no model on the way, one, a cloud model, several, controls, two of
one's own, further training, an ending."""


def quickly(names: Iterable[str], quick: Iterable[str] = DIFFERENT) -> list[Any]:
    """These methods as parameters of a test, of which all but some are for the slow tests.

    For what does not look into a method, so that the others would show the same; the laws are put to all of them.
    """
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


def scores_of(report: Round) -> list[Measured]:
    """The scores of a round that was evaluated."""
    assert report.scores is not None
    return report.scores


# Least squares: strongly convex, with closed forms


def half_square(out: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (out[:, 0] - y).square().mean()


def squares(start: list[float]) -> Task:
    """Least squares in as many unknowns: F_i(w) = mean (w x - y)^2 / 2."""
    first = {"weight": torch.tensor([start])}
    size = len(start)
    make: Callable[[], nn.Module] = lambda: nn.Linear(size, 1, bias=False)  # noqa: E731
    return Task(make, (size,), 1, loss=half_square, dtype=torch.float64, start=first)


def least(name: str, x: list[list[float]], y: list[int]) -> Silo:
    data = Split(torch.tensor(x, dtype=torch.float64), torch.tensor(y))
    return Silo(name, data, data)


PAIR = [least("a", [[1.0]], [1]), least("b", [[2.0]], [4])]  # F_a' = w - 1, F_b' = 4 w - 8
THREE = [  # strongly convex, with different Hessians and different optima
    least("a", [[1.0, 0.0], [0.5, 1.0]], [3, -1]),
    least("b", [[1.5, 0.5], [0.0, 1.0]], [-2, 2]),
    least("c", [[1.0, -1.0], [1.0, 1.0], [0.0, 0.5]], [1, 4, -3]),
]


def quadratic(features: int) -> Task:
    """F_i(w) = |X w - y|^2 / (2 n), from 0."""
    start = {"weight": torch.zeros(1, features)}
    shape = (features,)
    return Task(
        lambda: nn.Linear(features, 1, bias=False), shape, 1, loss=half_square, dtype=torch.float64, start=start
    )


def own(name: str, x: Tensor, y: Tensor) -> Silo:
    return Silo(name, Split(x, y), Split(x, y))


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
