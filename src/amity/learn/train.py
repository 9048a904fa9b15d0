"""The one local loop, and what methods with a loop of their own need.

    Local(start, F_i, h, opt, E, B):  w <- start; for every epoch a keyed permutation of the data, for every batch b:
        g = grad F_i(w; b) + h(w);  w <- optimiser step along g

Extra gradient terms h enter before the optimiser, so that Adam sees the gradient of the true objective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from torch import Generator, Tensor

from amity.contract import Model, Split, Turn
from amity.learn.descent import descent as descent
from amity.learn.descent import plain_sgd as plain_sgd
from amity.learn.task import Task

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
    only: Tensor | None = None,
    role: str = "train",
) -> Model:
    """One client's local training from `start`, with a fresh optimiser.

    `only` is 1 at the parameters that are trained and 0 at those that stay as they are, whatever the optimiser.
    """
    model = task.working(start)
    params = model["params"]
    step = task.descent(turn, params)
    for batch, rng in task.batches(turn, role):
        gradient = task.slope(model, batch, rng)
        for term in terms:
            gradient.add_(term(params))
        if only is not None:
            gradient.mul_(only)
        step(gradient)
    return task.release(model)


def batches(task: Task, turn: Turn, role: str = "train") -> Iterator[tuple[Split, Generator | None]]:
    """The turn's batches in order, each with the stream for a model that draws random numbers.

    A last batch of one example is left out when the model normalises over the batch. No data, no batches.
    """
    steps(task, turn)  # clients that advance together must all take as many
    return task.batches(turn, role)


def steps(task: Task, turn: Turn) -> int:
    """How many batches the turn has: those that `batches` gives."""
    return task.steps(turn)


def gradient_at(task: Task, model: Model, batch: Split, rng: Generator | None = None) -> tuple[Tensor, Model]:
    """The gradient at any model, and a copy of that model whose buffers have seen the batch.

    For methods that look at several models in turn; the gradient is valid until the thread's next call.
    """
    here = task.working(model)
    gradient = task.slope(here, batch, rng)
    return gradient, task.release(here)


def same_draws(rng: Generator | None) -> Generator | None:
    """A stream that gives the same numbers, so that two models can be seen under the same Dropout."""
    return None if rng is None else Generator().set_state(rng.get_state())
