"""Four small silos of a user's own, models that fit them, and quick runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import amity
from amity.data import Silos

FEATURES, CLASSES = 6, 3
NAMES = ("north", "south", "east", "west")
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def arrays(seed: int, size: int = 40, tests: int = 20) -> Arrays:
    """x_train, y_train, x_test, y_test: labels by a linear rule."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size + tests, FEATURES)).astype("float32")
    y = (x @ rng.normal(size=(FEATURES, CLASSES))).argmax(1)
    y[:CLASSES] = range(CLASSES)  # every class occurs
    return x[:size], y[:size], x[size:], y[size:]


OWN = {name: arrays(seed) for seed, name in enumerate(NAMES)}


def own(**changes: Arrays) -> Silos:
    return amity.own_silos({**OWN, **changes})


def linear() -> nn.Module:
    return nn.Linear(FEATURES, CLASSES)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES))


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, CLASSES))


def quick(method: str = "heurfedamp", **options: Any) -> amity.Run:
    return amity.Run(method, **{"rounds": 3, "epochs": 2, "workers": 1, "lr": 0.05, **options})


def found(result: amity.Result) -> dict[str, Any]:
    return {key: value for key, value in result.summary.items() if key != "seconds"}


def known(values: Iterable[float | None] | None) -> list[float]:
    """Numbers of which none is missing."""
    assert values is not None
    there = []
    for value in values:
        assert value is not None
        there.append(value)
    return there


def weights_of(result: amity.Result) -> dict[str, Tensor]:
    return {
        f"{name}/{key}": value for name in result.accuracy for key, value in result.model(name).state_dict().items()
    }


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)
