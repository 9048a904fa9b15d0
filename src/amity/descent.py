"""Optimisers on flat vectors."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from amity.contract import InputError, Solver, Turn


def descent(turn: Turn, params: Tensor, rate: float | None = None) -> Callable[[Tensor], None]:
    """A fresh optimiser that moves `params` in place along the gradients it is given.

    The rate is the solver's in this round, unless another is given.
    """
    solver = turn.solver
    rate = solver.rate_at(turn.round) if rate is None else rate
    if solver.optimizer == "adam":
        adam = torch.optim.Adam([params], lr=rate, fused=True)

        def adam_step(gradient: Tensor) -> None:
            params.grad = gradient
            adam.step()

        return adam_step

    velocity = torch.zeros_like(params) if solver.momentum else None

    def sgd_step(gradient: Tensor) -> None:
        if velocity is None:
            params.add_(gradient, alpha=-rate)
        else:
            params.add_(velocity.mul_(solver.momentum).add_(gradient), alpha=-rate)

    return sgd_step


def plain_sgd(method: str, solver: Solver) -> None:
    """Refuse momentum where a method's equations are those of plain gradient steps."""
    if solver.momentum:
        raise InputError(f"{method} needs plain sgd, got momentum {solver.momentum:g}: set momentum to 0")
