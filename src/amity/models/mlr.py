"""Multinomial logistic regression: the convex model."""

from __future__ import annotations

import math

from torch import nn


class MLR(nn.Sequential):
    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__(nn.Flatten(), nn.Linear(math.prod(shape), classes))
