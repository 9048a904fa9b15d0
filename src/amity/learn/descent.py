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
        adam = Adam(params, rate)

        def adam_step(gradient: Tensor) -> None:
            adam.step(params, gradient, adam.first, adam.second)

        return adam_step

    velocity = torch.zeros_like(params) if solver.momentum else None

    def sgd_step(gradient: Tensor) -> None:
        if velocity is None:
            params.add_(gradient, alpha=-rate)
        else:
            params.add_(velocity.mul_(solver.momentum).add_(gradient), alpha=-rate)

    return sgd_step


class Adam:
    """Adam's moments of one tensor (Kingma and Ba, with their values), and torch's own kernel for its step.

    `torch.optim.Adam` has the same steps to the last bit, but its constructor loads torch's compiler, which takes
    nearly as long as torch itself.
    """

    def __init__(self, like: Tensor, rate: float) -> None:
        self.first, self.second = torch.zeros_like(like), torch.zeros_like(like)
        self._steps = torch.zeros((), device=like.device)
        self._rate = rate

    def step(self, params: Tensor, gradient: Tensor, first: Tensor, second: Tensor) -> None:
        """Move `params` in place; the moments are `first` and `second` of this object, or the same part of either."""
        self._steps.add_(1)
        torch._fused_adam_(
            [params],
            [gradient],
            [first],
            [second],
            [],
            [self._steps],
            amsgrad=False,
            lr=self._rate,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )


def plain_sgd(method: str, solver: Solver) -> None:
    """Refuse momentum where a method's equations are those of plain gradient steps."""
    if solver.momentum:
        raise InputError(f"{method} needs plain sgd, got momentum {solver.momentum:g}: set momentum to 0")
