"""Ended: any method, with an ending at each silo after its last round, and a model trained alone beside it.

    rounds 1 to K    the method's own, untouched
    round K + 1      v_i = the method's personal model; then each silo by itself, and nothing is uploaded:
                     w_i = End(v_i)            goes on alone until it stops improving (`learn/ending.py`)
                                               of a method with several models to go on from, the best one
                     a_i = End(w^0)            where `safe`: the model that it would have had without the others
                     delivers a_i where it is clearly better on the examples that the silo has held out, else w_i

"Clearly" is a one-sided paired test: with d the loss of w_i less that of a_i on each of N held-out examples, a_i is
delivered if mean(d) / (sd(d) / sqrt(N)) is above the (1 - DOUBT) quantile of Student's t with N - 1 degrees of freedom.
Were both equally good, a silo would be sent on alone with probability DOUBT. Two trainings never are, so with many
held-out examples it happens more often, and costs nothing: docs/ending.md has what was measured.

A silo that is away in the ending keeps the method's own personal model. What else the method has (cloud models, weights
that silos give each other, limits to its solver) is still the method's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from amity.contract import (
    MODEL,
    ChoosesLast,
    Choosing,
    Data,
    Download,
    Federation,
    Grows,
    Kinds,
    Method,
    Model,
    Rehearses,
    Relational,
    Starts,
    State,
    Turn,
    Validating,
    declared,
)
from amity.learn.ending import End, find_end, go_on, held_out, judges, likelier
from amity.learn.task import Task
from amity.methods._wrapper import Wrapper

Length = int | Literal["none", "auto"]
"""Epochs of an ending; auto: each silo finds its own number; none: there is no ending."""

HELD_OUT = 0.2
"""The share of its training examples that a silo holds out, where it brings no validation data."""

SHORTEST = 40
"""Epochs that an ending of its own length may take in any case; beyond, as many as all rounds together."""

DOUBT = 0.1
"""The chance with which a silo would be sent on alone were both models equally good."""

FLAG = "ending"
"""A key of the download in the round after the last: what comes with it is where the ending starts from."""

KEPT = {key: f"ending/{key}" for key in MODEL}
EPOCHS, ALONE = "ending/epochs", "ending/alone"  # of the silo's state: how long it was; whether its model is its own
NOT_YET = -1.0  # epochs


@dataclass(frozen=True)
class Ended(Wrapper):
    """A method with an ending. `resolve` makes it, from the options `ending` and `safe` of a run."""

    rounds: int  # K, of the method itself
    epochs: int  # E, of each of them
    ending: Length = "auto"
    safe: bool = False

    @property
    def evaluates(self) -> Literal["held", "server"]:
        return self.base.evaluates

    @property
    def validation(self) -> float:
        """The share of training data to hold out: the method's own, or what the ending needs."""
        own = self.base.validation if isinstance(self.base, Validating) else 0.0
        return own or (HELD_OUT if self.safe or self.ending == "auto" else 0.0)

    def init_server(self, task: Task, fed: Federation) -> State:
        return self.base.init_server(task, self._own(fed))

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        first = task.initial(fed)  # shared by all until the ending: it takes no memory
        return {**self.base.init_client(task, self._own(fed), client), **_kept(first, NOT_YET, False)}

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        if round <= self.rounds:
            return self.base.download(server, who, round, rng)
        needed = self.evaluates == "server"  # then the silo has no model of its own to begin from
        last = self.base.last_download if isinstance(self.base, ChoosesLast) else self.base.download
        down = last(server, who, round, rng) if needed else Download({}, {})
        return Download({**down.shared, FLAG: torch.tensor(True)}, down.each)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        own, kept = _parted(client)
        if FLAG not in down:
            own, upload = self.base.local(task, own, down, turn)
            return {**own, **kept}, upload
        sent = _unflagged(down) if self.evaluates == "server" else None
        turn = turn._replace(data=Data(turn.data.mine, turn.data.val))
        ends = self._ends(task, client, sent, turn)
        end = functools.reduce(functools.partial(_better, classes=task.classes), ends)
        if self.safe and not end.alone and end.held_out is not None:
            other = self._alone(task, client, turn)
            end = other if clearly_better(other, end) else end
        return {**own, **_kept(end.model, end.epochs, end.alone)}, {}

    def _ends(self, task: Task, client: State, sent: State | None, turn: Turn) -> list[End]:
        """The models that the silo chooses from, each at its own end."""
        starts = self._starts(task, own_part(client), sent, turn)
        return [self._end(task, start, turn) for start in starts]

    def _alone(self, task: Task, client: State, turn: Turn) -> End:
        """The model that the silo would have without the others: from the first one, as long as all rounds and more."""
        return find_end(task, first_model(client), turn, self._limit_alone, "alone")._replace(alone=True)

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds | None:
        return {} if FLAG in down.shared else declared(self.base, task, self._own(fed), down)

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return server if round > self.rounds else self.base.aggregate(server, who, uploads, round)

    def grow_server(self, task: Task, before: Federation, after: Federation, server: State) -> State:
        if not isinstance(self.base, Grows):
            return server
        return self.base.grow_server(task, self._own(before), self._own(after), server)

    def grow_client(self, task: Task, before: Federation, after: Federation, client: int, state: State) -> State:
        if not isinstance(self.base, Grows):
            return state
        own, kept = _parted(state)
        return {**self.base.grow_client(task, self._own(before), self._own(after), client, own), **kept}

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        own, kept = _parted(client)
        over = turn.round > self.rounds + 1  # the turn is that of the round to come
        if over and kept[EPOCHS] != NOT_YET:
            return {key: kept[KEPT[key]] for key in MODEL}
        return self.base.personal(task, own, None if down is None else _unflagged(down), turn)

    def holds(self, client: State) -> str:
        """What a silo delivers, in words for the record; nothing before the ending, but for a method that chooses."""
        own, kept = _parted(client)
        if kept[EPOCHS] == NOT_YET:
            return self.base.holds(own) if isinstance(self.base, Choosing) else ""
        return f"{'alone' if kept[ALONE] else 'together'}, {float(kept[EPOCHS]):.0f} epochs"

    def _starts(self, task: Task, own: State, sent: State | None, turn: Turn) -> list[Model]:
        """The models to go on from; only one where there is nothing to choose by."""
        if isinstance(self.base, Starts) and judges(turn.data):
            return self.base.starts(task, own, sent, turn)
        return [self.base.personal(task, own, sent, turn)]

    def _end(self, task: Task, start: Model, turn: Turn) -> End:
        """A model at its own end; at the start, where the silo has nothing to learn from or to judge by."""
        if isinstance(self.ending, int):
            return go_on(task, start, turn, self.ending, judged=self.safe or isinstance(self.base, Starts))
        if self.ending == "none" or not judges(turn.data):
            return End(start, 0, held_out(task, start, turn))
        return find_end(task, start, turn, self._limit)

    @property
    def _limit(self) -> int:
        """The most epochs of an ending that finds its own length."""
        return max(SHORTEST, self.rounds * self.epochs)

    @property
    def _limit_alone(self) -> int:
        """The same for a model that has had no rounds before."""
        return self.rounds * self.epochs + self._limit

    def _own(self, fed: Federation) -> Federation:
        """The federation as the method sees it: its own rounds only."""
        return fed._replace(rounds=self.rounds)


@dataclass(frozen=True)
class EndedRelational(Ended):
    """A method with an ending whose silos learn their own weights of the others."""

    def relations(self, client: State) -> Tensor:
        assert isinstance(self.base, Relational)
        return self.base.relations(_parted(client)[0])


def with_ending(method: Method, rounds: int, epochs: int, ending: Length, safe: bool) -> Method:
    """The method with an ending after so many rounds, where one is asked for."""
    if ending == "none" and not safe:
        return method
    if ending == "auto" and isinstance(method, Rehearses) and method.rehearsal:
        from amity.methods.rehearsed import Rehearsed  # here, for it builds on this module

        return Rehearsed(method, rounds, epochs, ending, safe, method.rehearsal)
    kind = EndedRelational if isinstance(method, Relational) else Ended
    return kind(method, rounds, epochs, ending, safe)


def clearly_better(other: End, end: End) -> bool:
    """Whether one model has a clearly smaller loss than another on the examples that were held out from both."""
    from scipy.special import stdtrit  # here, because it takes a quarter of a second of every process

    assert other.held_out is not None and end.held_out is not None
    d = (end.held_out - other.held_out).double()
    if not d.isfinite().all():  # a model that is broken says so
        return bool(other.held_out.isfinite().all())
    if len(d) < 2:
        return False
    mean, error = d.mean().item(), d.std().item() / math.sqrt(len(d))
    return mean > 0 and mean > float(stdtrit(len(d) - 1, 1 - DOUBT)) * error


def _better(first: End, second: End, classes: int) -> End:
    """The first, unless the held-out examples are clearly likelier under the second, or the first is broken."""
    assert first.held_out is not None and second.held_out is not None
    one, other = first.held_out.double().sum(), second.held_out.double().sum()
    if not other.isfinite():
        return first
    return second if not one.isfinite() or likelier(one, other, len(first.held_out), classes) else first


def first_model(client: State) -> Model:
    """The first model, which a silo keeps until its ending."""
    return {key: client[KEPT[key]] for key in MODEL}


def _kept(model: Model, epochs: float, alone: bool) -> State:
    marks = {EPOCHS: torch.tensor(float(epochs)), ALONE: torch.tensor(alone)}
    return {**{KEPT[key]: model[key] for key in MODEL}, **marks}


def _parted(client: State) -> tuple[State, State]:
    """The method's own state, and what belongs to the ending."""
    kept = {key: client[key] for key in (*KEPT.values(), EPOCHS, ALONE)}
    return {key: value for key, value in client.items() if key not in kept}, kept


def own_part(client: State) -> State:
    """The part of a silo's state that is the method's own."""
    return _parted(client)[0]


def _unflagged(down: State) -> State:
    return {key: value for key, value in down.items() if key != FLAG}
