"""Method code of one client, lifted over a stack of clients whose small dense models are rows of one matrix.

A method's `local` and `personal` are written for one client; torch.func.vmap runs them once for many. What is heavy
inside (gradients, optimiser steps, batches, evaluation) sees all rows at once: `_Together` is the task that they are
given, and holds the matrices behind the vectors that method code sees.

Nothing is approximated. Each client has the batches that it would have alone, from the same streams; a short batch is
padded with examples of weight 0. The clients of a stack have as many epochs and stand in order of their sizes, so
`train` goes on with the first rows when the last ones are done. Code that needs to know a client's number of steps, or
looks at its examples, is given stacks of clients that agree in them (`Uneven`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
import torch
from torch import Generator, Tensor
from torch.func import vmap

from amity.contract import Data, Model, Score, Split, State, Turn, model_of
from amity.engines.local.dense import Dense, Weights
from amity.engines.local.stacked_examples import (
    BatchOfStack,
    DataOfStack,
    Examples,
    Kind,
    Part,
    Uneven,
    Unseen,
    WithoutOwn,
    outputs_of,
)
from amity.learn.descent import Adam
from amity.learn.streams import orders
from amity.learn.task import Task

T = TypeVar("T")

_DRAWN_NUMBERS = 1 << 14  # places of batches that are drawn up at a time, where an epoch has no more


class Stacks:
    """All that clients need to advance together. `run` lifts a method's function over some of them."""

    def __init__(
        self,
        task: Task,
        dense: Dense,
        data: Mapping[int, Data],
        tests: Mapping[int, Split],
        units: Mapping[int, float],
    ) -> None:
        self.task = task
        self.dense = dense
        self.train = Examples({client: parts.train for client, parts in data.items()})
        self.val = Examples({client: parts.val for client, parts in data.items()})
        self.tests = Examples(tests)
        self.units = units
        self.class_weights = {client: task.at(parts.train).weights for client, parts in data.items()}

    def size(self, client: int, kind: Kind, batch: int) -> int | None:
        """What a client has of this kind."""
        if kind == "val":
            return self.val.sizes[client]
        size = self.train.sizes[client] or 0
        return size if kind == "train" else -(-size // batch)

    def run(
        self,
        function: Callable[[Task, State, Any, Turn], T],
        clients: Sequence[int],
        states: Sequence[State],
        downs: Sequence[State | None],
        turns: Sequence[Turn],
    ) -> T:
        """What `function(task, state, down, turn)` gives for each client, with a leading axis: the clients.

        They have equal epochs, all or none of them validation data, and come in order of their sizes, largest first.
        """
        together = _Together(self, clients, turns)
        own_rows, own_shared = _stacked(states)
        sent_rows, sent_shared = _stacked([{} if down is None else down for down in downs])
        unsent = downs[0] is None

        def one(params: Tensor, gradient: Tensor, loss: Tensor, place: Tensor, own: State, sent: State) -> T:
            together.enter(params, gradient, loss, place)
            down = None if unsent else {**sent, **sent_shared}
            return function(together, {**own, **own_shared}, down, together.turn)

        places = torch.arange(len(clients), device=self.task.device)
        lifted = vmap(one, randomness="same")  # streams are the clients' own: nothing is drawn for all
        with torch.no_grad():
            return lifted(together.models, together.gradients, together.losses, places, own_rows, sent_rows)

    def scores(self, clients: Sequence[int], models: Model) -> list[Score]:
        """Every client's model on its own test and validation data, and its loss on training data where that is asked
        for.  # models [m, d]"""
        weights = self.dense.views(models["params"])
        units = [self.units[client] for client in clients]
        scores = self._scores(weights, Part(self.tests, clients, "train"), units, metrics=True)
        if self.task.train_loss:
            part = Part(self.train, clients, "train")
            means = (outputs_of(self.dense, weights, part)[1].cpu() / torch.tensor(part.sizes)).tolist()
            scores = [score._replace(train_loss=mean) for score, mean in zip(scores, means, strict=True)]
        if self.val.sizes[clients[0]] is None:  # then none of the stack has any
            return scores
        judged = self._scores(weights, Part(self.val, clients, "val"), units, metrics=False)
        return [score._replace(val=own.main) for score, own in zip(scores, judged, strict=True)]

    def _scores(self, models: list[Weights], part: Part, units: Sequence[float], *, metrics: bool) -> list[Score]:
        outputs, losses = outputs_of(self.dense, models, part)
        index, there = part.index(0, outputs.shape[1])
        y = part.source.y[index[there]]
        return self.task.scores(outputs[there], y, part.sizes, losses.tolist(), units, metrics=metrics)


def _stacked(states: Sequence[State]) -> tuple[State, State]:
    """What belongs to each client, stacked; and what is equal for all and no vector, as it is.

    Method code may take the second for Python numbers: the rounds of the run, a coin thrown for everybody.
    """
    rows, shared = {}, {}
    if any(state.keys() != states[0].keys() for state in states):
        raise NotImplementedError("clients keep or are sent different things")
    for key, first in states[0].items():
        values = [state[key] for state in states]
        same = all(value is first for value in values)
        if same and first.is_floating_point() and first.dim() and first.numel():
            rows[key] = first.expand(len(values), *first.shape)
        elif same or first.numel() == 0:
            shared[key] = first
        else:
            stack = torch.stack(values)
            if first.dim() == 0 and bool((stack == first).all()):
                shared[key] = first
            else:
                rows[key] = stack
    return rows, shared


class _Together(Task):
    """The task as method code sees it under vmap: vectors of one client, behind them the matrices of all."""

    def __init__(self, stacks: Stacks, clients: Sequence[int], turns: Sequence[Turn]) -> None:
        self.__dict__.update(stacks.task.__dict__)
        self._dense = stacks.dense
        self._turns = turns
        self._train = Part(stacks.train, clients, "train")
        own = [weights for client in clients if (weights := stacks.class_weights[client]) is not None]
        self._class_weights = torch.stack(own) if own else None  # [m, classes]
        val = None if stacks.val.sizes[clients[0]] is None else Part(stacks.val, clients, "val")
        self.models = torch.empty(len(clients), self.size, dtype=self.dtype, device=self.device)
        self.gradients = torch.empty_like(self.models)
        self.losses = torch.zeros(len(clients), dtype=self.dtype, device=self.device)
        self._active = 0  # rows that the last gradient was for
        self._views: dict[int, tuple[list[Weights], list[Weights]]] = {}
        data = [None if part is None else DataOfStack(part, self._lift) for part in (self._train, val)]
        kind = Data if all(turn.data.own is None for turn in turns) else WithoutOwn
        self.turn = turns[0]._replace(data=kind(*cast(Any, data)), seed=_refuse)

    def enter(self, params: Tensor, gradient: Tensor, loss: Tensor, place: Tensor) -> None:
        """Take what stands for one client's row of the matrices, and for its place."""
        self._params, self._gradient, self._loss, self._place = params, gradient, loss, place

    def _lift(self, rows: Tensor) -> Tensor:
        """One client's row."""
        return rows[self._place]

    def _load(self, model: Model) -> None:
        if model["params"] is not self._params:
            self._params.copy_(model["params"])

    def _weights(self, rows: int) -> tuple[list[Weights], list[Weights]]:
        if rows not in self._views:
            self._views[rows] = self._dense.views(self.models[:rows]), self._dense.views(self.gradients[:rows])
        return self._views[rows]

    def working(self, model: Model) -> Model:
        self._load(model)
        return {**model_of(model), "params": self._params}

    def release(self, working: Model) -> Model:
        return {key: value.clone() for key, value in working.items()}

    def slope(self, model: Model, batch: Split, rng: Generator | None = None) -> Tensor:
        self._descend(model, cast(BatchOfStack, batch))
        return self._gradient

    def gradient(self, model: Model, batch: Split, rng: Generator | None = None) -> tuple[Tensor, Tensor]:
        scores = self._descend(model, cast(BatchOfStack, batch))
        _, y, share = cast(BatchOfStack, batch).stacked
        self.losses[: self._active] = (self._dense.losses(scores, y) * share).sum(1)
        return self._loss.clone(), self._gradient

    def _descend(self, model: Model, batch: BatchOfStack) -> Tensor:
        self._load(model)
        x, y, share = batch.stacked
        self._active = len(x)
        models, gradients = self._weights(self._active)
        return self._dense.gradient(models, x, y, share, gradients)

    def evaluate(self, model: Model, split: Split, unit: float = 1.0) -> Score:
        self._load(model)
        part = cast(DataOfStack, split).part
        outputs, loss = outputs_of(self._dense, self._weights(len(self.models))[0], part)
        lifted = cast(float, self._lift(loss))
        if len(set(part.sizes)) > 1:
            return Score(cast(Tensor, Unseen(part.kind)), lifted)
        y = part.source.y[part.index(0, part.sizes[0])[0]]
        return Score(self._lift(self.outcome(outputs, y)), lifted)

    def steps(self, turn: Turn) -> int:
        counts = {-(-size // turn.solver.batch) for size in self._train.sizes}
        if len(counts) > 1:
            raise Uneven("batches" if turn.solver.batch == self.turn.solver.batch else "train")
        return turn.epochs * counts.pop()

    def batches(self, turn: Turn, role: str) -> Iterator[tuple[Split, None]]:
        """The first batch of every client, the second, and so on, for the rows that have one.

        A few epochs of the largest client are drawn up at a time; a smaller one begins epochs of its own meanwhile.
        """
        part, source = self._train, self._train.source
        count, largest = len(part.sizes), max(part.sizes)
        if not largest or not turn.epochs:
            return
        batch = min(turn.solver.batch, largest)
        spans = {size: -(-size // batch) * batch for size in part.sizes}  # places of an epoch, padding included
        longest = spans[largest]
        window = longest * max(1, min(turn.epochs, _DRAWN_NUMBERS // (count * longest)))
        end = longest * turn.epochs
        table = np.full((count, window + longest), -1)  # an epoch may reach into the next window
        equals = [(size, list(group)) for size, group in groupby(range(count), part.sizes.__getitem__) if size]
        for start in range(0, end, window):
            table[:, :longest], table[:, longest:] = table[:, window:], -1
            for size, group in equals:
                span = spans[size]
                first, last = (min(turn.epochs, -(-place // span)) for place in (start, start + window))
                seeds = [self._turns[row].seed(role, epoch + 1) for row in group for epoch in range(first, last)]
                drawn = np.full((len(group), last - first, span), -1)  # the last batch of an epoch is padded
                drawn[:, :, :size] = orders(seeds, size).reshape(len(group), last - first, size)
                begin = first * span - start
                table[group, begin : begin + drawn[0].size] = drawn.reshape(len(group), -1)
            now = table[:, : min(window, end - start)]
            index = torch.from_numpy(now.copy()).view(count, -1, batch).transpose(0, 1)
            there = index >= 0
            counts = there.sum(2)  # [steps, m]
            share = (there.to(self.dtype) / counts.clamp(min=1)[:, :, None]).to(self.device)
            index = index.clamp(min=0).to(self.device) + part.starts[:, None]  # padding: the client's own first example
            labels = source.y[index]
            if self._class_weights is not None:
                share = share * self._class_weights[torch.arange(count, device=self.device)[:, None], labels]
            shapes = zip((counts > 0).sum(1).tolist(), counts.amax(1).tolist(), strict=True)
            steps = zip(index.unbind(0), labels.unbind(0), share.unbind(0), shapes, strict=True)
            for *parts, (rows, width) in steps:
                if (rows, width) != (count, batch):
                    parts = [part[:rows, :width] for part in parts]
                chosen, y, weight = parts
                x = source.x.index_select(0, chosen.flatten()).view(rows, width, -1)
                yield cast(Split, BatchOfStack(x, y, weight, source.shape, self._lift)), None

    def descent(self, turn: Turn, params: Tensor) -> Callable[[Tensor], None]:
        """For the working vectors and the last gradient, in the rows that it was for."""
        solver, rate = turn.solver, turn.solver.rate_at(turn.round)
        models, gradients = self.models, self.gradients

        def active(matrix: Tensor) -> Tensor:
            return matrix if self._active == len(matrix) else matrix[: self._active]

        if solver.optimizer == "adam":
            adam = Adam(models, rate)

            def adam_step(gradient: Tensor) -> None:
                adam.step(active(models), active(gradients), active(adam.first), active(adam.second))

            return adam_step

        velocity = torch.zeros_like(models) if solver.momentum else None

        def sgd_step(gradient: Tensor) -> None:
            step = active(gradients)
            if velocity is not None:
                step = active(velocity).mul_(solver.momentum).add_(step)
            active(models).add_(step, alpha=-rate)

        return sgd_step


def _refuse(role: str, epoch: int) -> NoReturn:
    raise NotImplementedError("its turn draws random numbers of its own")
