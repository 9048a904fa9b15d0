"""Going on alone: what a silo does after the last round, from what was learnt together, with its own data only.

How far to go differs from silo to silo, so each finds its own length on examples that it has held out:

    1. from the start model w_0, train on the training part; after each epoch n = 1, 2, ... note L_n, the mean loss on
       the N held-out examples, until it has not improved for as long again
    2. p_n, how likely the held-out examples are after n epochs: proportional to exp(-N L_n) for classes, where L is the
       cross-entropy, and to L_n^(-N/2) for quantities, where L is the squared error (its variance at its likeliest)
    3. from w_0 again, train on all examples, held-out ones too; the model is  sum of p_n w_n
       where those it has now learnt from have a larger loss than under any w_n of step 1, training has run away, as it
       may with a rate that is just bearable without them: then the model is that of step 1

Many held-out examples single out the best length; a few leave a broad average over the path, which is the safer answer
where nothing better is known. Every w_n continues the one before it, so that their average is a model of the same kind
(as in Izmailov et al., Averaging Weights Leads to Wider Optima and Better Generalization, UAI 2018).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from amity.contract import Data, Model, Split, Turn
from amity.learn.task import Task
from amity.learn.train import train

PATIENCE = 10
"""Epochs without a better held-out loss that are always gone on for; beyond, as many as led to the best one."""


EVIDENCE = 1.0
"""A second model is taken in place of a first where held-out examples are so much likelier under it, in logarithms: a
few examples, which any model may get right, do not decide."""

SMALLEST = 1e-12
"""A squared error, of quantities with a variance of 1, below which it is rounding."""


class End(NamedTuple):
    """A model at its own end."""

    model: Model
    epochs: float  # the mean length under p_n, or the number that was given
    held_out: Tensor | None  # [N] the loss of each held-out example under the average of step 1; None without any
    alone: bool = False  # whether nobody else has had a part in it


def go_on(task: Task, start: Model, turn: Turn, epochs: int, *, judged: bool, role: str = "ending") -> End:
    """Train for a given number of epochs, on all examples; to be judged, once without those held out as well."""
    turn = turn._replace(epochs=epochs)
    losses = None
    if judged and judges(turn.data):
        losses = held_out(task, train(task, start, turn, role=role), turn)
    return End(train(task, start, turn._replace(data=whole(turn.data)), role=f"{role}/all"), epochs, losses)


def find_end(task: Task, start: Model, turn: Turn, limit: int, role: str = "ending") -> End:
    """Train until the held-out loss says that it is enough, at most `limit` epochs; then once more on all examples.

    The examples held out are the turn's validation data.
    """
    losses, seen = _first_pass(task, start, turn, limit, role)
    judge = _judge(turn)
    again = turn._replace(data=whole(turn.data))
    found = _Average()
    for loss, model in zip(losses, path(task, start, again, len(losses) - 1, f"{role}/all"), strict=True):
        found.add(model, log_odds(loss, len(judge.y), task.classes))
    end = found.model
    if not task.example_losses(end, judge).mean() <= max(losses):  # NaN too: this time training has run away
        end = seen
    return End(end, found.mean_place, task.example_losses(seen, judge))


def tried_end(task: Task, start: Model, turn: Turn, limit: int, role: str) -> float:
    """Return what such an ending would come to: minus the log-likelihood of the held-out examples at its end."""
    _, seen = _first_pass(task, start, turn, limit, role)
    judge = _judge(turn)
    return -log_odds(float(task.example_losses(seen, judge).mean()), len(judge.y), task.classes)


def _first_pass(task: Task, start: Model, turn: Turn, limit: int, role: str) -> tuple[list[float], Model]:
    """Step 1 and 2: the held-out loss after each epoch, and the average of the models by what these say."""
    judge = _judge(turn)
    losses: list[float] = []
    seen = _Average()
    for model in path(task, start, turn, limit, role):
        losses.append(float(task.example_losses(model, judge).mean()))
        seen.add(model, log_odds(losses[-1], len(judge.y), task.classes))
        if enough(losses):
            break
    return losses, seen.model


def _judge(turn: Turn) -> Split:
    """The examples that are held out."""
    if turn.data.val is None or not judges(turn.data):
        raise ValueError("an ending of its own length needs training examples and held-out ones")
    return turn.data.val


def judges(data: Data) -> bool:
    """Whether there are examples to learn from, and others to judge by."""
    return bool(len(data.train.y)) and data.val is not None and bool(len(data.val.y))


def held_out(task: Task, model: Model, turn: Turn) -> Tensor | None:
    """The loss of each held-out example; None where a turn has none, or nothing to learn from.  # [N]"""
    judge = turn.data.val
    return task.example_losses(model, judge) if judge is not None and judges(turn.data) else None


def path(task: Task, start: Model, turn: Turn, limit: int, role: str) -> Iterator[Model]:
    """The start, then the model after each epoch, all with one optimiser."""
    model = task.working(start)
    step = task.descent(turn, model["params"])
    yield task.release(model)
    for epoch in range(1, limit + 1):
        for batch, rng in task.batches(_epoch(turn, epoch), role):
            step(task.slope(model, batch, rng))
        yield task.release(model)  # whoever evaluates it leaves the working vectors as they are


def _epoch(turn: Turn, number: int) -> Turn:
    """One epoch of a turn, with that epoch's own streams."""
    return turn._replace(epochs=1, seed=lambda role, _: turn.seed(role, number))


def enough(losses: Sequence[float]) -> bool:
    """Whether the held-out loss has not improved for long enough; the first is that of the start.

    A loss that is not finite will not come back.
    """
    if not math.isfinite(losses[-1]):
        return True
    best = min(range(len(losses)), key=losses.__getitem__)
    return len(losses) - 1 >= 2 * best + PATIENCE


def log_odds(loss: float, examples: int, classes: int) -> float:
    """The logarithm of p_n, up to a constant: of what a model says about held-out examples with this mean loss."""
    if not math.isfinite(loss):
        return -math.inf
    return -examples * loss if classes else -examples / 2 * math.log(max(loss, SMALLEST))


def likelier(first: Tensor, second: Tensor, examples: int, classes: int) -> Tensor:
    """Whether held-out examples are clearly likelier under the second model, from either one's summed loss.  # []

    In logarithms the difference is first - second for classes, and N/2 log(first / second) for quantities.
    """
    if classes:
        return first - second > EVIDENCE
    ratio = first.clamp(min=SMALLEST) / second.clamp(min=SMALLEST)
    return examples / 2 * ratio.log() > EVIDENCE


def whole(data: Data) -> Data:
    """All that a silo may learn from once nothing is left to be judged."""
    if data.val is None:
        return data
    (x, y), (more, labels) = data.train, data.val
    return Data(Split(torch.cat([x, more]), torch.cat([y, labels])), None)


class _Average:
    """The average of models that come one by one, each with the logarithm of its odds.

    Odds are kept relative to the best so far, so that none overflows. Counters, which only grow, are the last model's.
    A model whose odds are no number counts only while there is no other.
    """

    def __init__(self) -> None:
        self._top = -math.inf
        self._odds = 0.0
        self._total: dict[str, Tensor] = {}
        self._last: Model = {}
        self._count = 0  # models so far
        self._places = 0.0  # the odds times the place of each

    def add(self, model: Model, log_odds: float) -> None:
        place, self._count = self._count, self._count + 1
        if not math.isfinite(log_odds):
            self._last = self._last or model
            return
        top = max(self._top, log_odds)
        old, new = math.exp(self._top - top), math.exp(log_odds - top)
        for key in ("params", "buffers"):
            part = new * model[key].double()
            self._total[key] = old * self._total[key] + part if key in self._total else part
        self._odds, self._top, self._last = old * self._odds + new, top, model
        self._places = old * self._places + new * place

    @property
    def model(self) -> Model:
        mean = {key: (total / self._odds).to(self._last[key].dtype) for key, total in self._total.items()}
        return {**self._last, **mean}

    @property
    def mean_place(self) -> float:
        """Where in the row the average lies: 0 is the first model."""
        return self._places / self._odds if self._odds else 0.0
