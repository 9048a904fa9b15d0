"""The one local loop, and the optimisers on flat vectors.

    Local(start, F_i, h, opt, E, B):  w <- start; for every epoch a keyed permutation of the data, for every batch b:
        g = grad F_i(w; b) + h(w);  w <- optimiser step along g

Extra gradient terms h enter before the optimiser, so that Adam sees the gradient of the true objective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Generator, Tensor

from amity.contract import InputError, Model, Solver, Split, Turn
from amity.task import Task

Term = Callable[[Tensor], Tensor]
"""An extra gradient: parameters [d] -> [d]."""


def proximal(weight: float, centre: Tensor) -> Term:
    """h(w) = weight (w - centre), the gradient of weight/2 |w - centre|^2; exactly 0 at the centre."""
    return lambda params: (params - centre).mul_(weight)


def train(
    task: Task,
    start: Model,
    turn: Turn,
    *,
    terms: Sequence[Term] = (),
    role: str = "train",
) -> Model:
    """One client's local training from `start`, with a fresh optimiser."""
    model = task.working(start)
    params = model["params"]
    step = descent(turn, params)
    for batch, rng in batches(task, turn, role):
        _, gradient = task.gradient(model, batch, rng)
        for term in terms:
            gradient.add_(term(params))
        step(gradient)
    return task.release(model)


def batches(task: Task, turn: Turn, role: str = "train") -> Iterator[tuple[Split, Generator | None]]:
    """The turn's batches in order, each with the stream for a model that draws random numbers.

    A last batch of one example is left out when the model normalises over the batch. No data, no batches.
    """
    x, y = turn.data.train
    for epoch in range(1, turn.epochs + 1):
        order = torch.randperm(len(y), generator=turn.rng(role, epoch)).to(y.device)
        inner = turn.rng(f"{role}/model", epoch) if task.draws else None
        for chosen in order.split(turn.solver.batch):
            if len(chosen) > (1 if task.normalises_batches else 0):
                yield Split(x[chosen], y[chosen]), inner


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


def steps(task: Task, turn: Turn) -> int:
    """How many batches the turn has: those that `batches` gives."""
    least = 2 if task.normalises_batches else 1  # the smallest batch that is used
    full, rest = divmod(len(turn.data.train.y), turn.solver.batch)
    return turn.epochs * (full * (turn.solver.batch >= least) + (rest >= least))


def gradient_at(task: Task, model: Model, batch: Split, rng: Generator | None = None) -> tuple[Tensor, Model]:
    """The gradient at any model, and a copy of that model whose buffers have seen the batch.

    For methods that look at several models in turn; the gradient is valid until the thread's next call.
    """
    here = task.working(model)
    _, gradient = task.gradient(here, batch, rng)
    return gradient, task.release(here)


def same_draws(rng: Generator | None) -> Generator | None:
    """A stream that gives the same numbers, so that two models can be seen under the same Dropout."""
    return None if rng is None else Generator().set_state(rng.get_state())


def plain_sgd(method: str, solver: Solver) -> None:
    """Refuse momentum where a method's equations are those of plain gradient steps."""
    if solver.momentum:
        raise InputError(f"{method} needs plain sgd, got momentum {solver.momentum:g}: set momentum to 0")
