"""A model of two numbers, a body and a head, for rounds by hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from amity.learn.task import Task


class Product(nn.Module):
    """The score x phi h: a body of one number and a head of one number."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.body(x))
        return scores


def product(phi: float, h: float) -> Task:
    """F_i(phi, h) = (phi h - y)^2 / 2 for one example x = 1."""
    start = {"body.weight": torch.tensor([[phi]]), "head.weight": torch.tensor([[h]])}
    loss = lambda scores, y: 0.5 * (scores[:, 0] - y).square().mean()  # noqa: E731
    return Task(Product, (1,), 1, loss=loss, dtype=torch.float64, start=start)
