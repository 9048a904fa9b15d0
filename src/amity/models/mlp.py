"""A perceptron with one hidden layer: small, fast, and good enough for vectors and tiny images."""

from __future__ import annotations

import math

from torch import nn


class MLP(nn.Sequential):
    def __init__(self, shape: tuple[int, ...], classes: int, hidden: int = 64) -> None:
        super().__init__(
            nn.Flatten(),
            nn.Linear(math.prod(shape), hidden),
            nn.ReLU(),
            nn.Linear(hidden, classes),
        )
