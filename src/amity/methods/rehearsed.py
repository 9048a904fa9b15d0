"""Rehearsed: an ending that silos have tried before, to agree on where it begins.

    w^k       the common model, of which w^0 was the first
    h(w)      = w - beta (w - w^0)             the same, drawn back towards the first one

    round K      with its upload silo i says how an ending would turn out from the model that it was sent, w = w^{K-1},
                 and from h(w):   L_i(w), L_i(h)   minus the log-likelihood of its held-out examples under the model
                 that the ending makes of either without these examples (`learn/ending.py`, steps 1 and 2)
    round K + 1  all begin from h(w) in place of w
                 if  sum_i d_i min(1, c / |d_i|) < 0,   d_i = L_i(h) - L_i(w),   c = ten times the median of |d_i|,
                 over the silos that say something

A common model that has come far may be so sure of the examples that it has seen that there is little left to learn from
them, although it is the better model *before* anybody goes on. Drawn back half-way it keeps what it has found, and can
still learn; the same is known of networks that are trained on when new data come (Ash and Adams, On Warm-Starting
Neural Network Training, NeurIPS 2020). Elsewhere every step back is a loss, and a silo's few held-out examples cannot
tell the one from the other. Those of all silos together can, and two numbers from each are enough for it. No silo's
word counts for more than ten of the middle one's; a liar can at most choose between two models, from both of which each
silo finds its own way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from amity.contract import MODEL, Data, Download, Federation, Kind, Kinds, Model, State, Turn, model_of
from amity.learn.ending import judges, tried_end
from amity.learn.task import Task
from amity.methods._best_so_far import WORST, worse
from amity.methods.ended import FLAG, KEPT, Ended

SAID = "rehearsal/said"
"""In an upload: L_i(w) and L_i(h); zeros before round K, and where a silo holds no examples out."""

MEDIANS = 10.0
"""How much more than the middle silo's word one may count."""

_NOW = "rehearsal/now"  # of the download in round K: silos shall try an ending
_BACK = "rehearsal/back"  # of the server's state and the download after it: endings begin from h(w)


@dataclass(frozen=True)
class Rehearsed(Ended):
    """A method with an ending whose silos agree in the last round on where it begins. `with_ending` makes it."""

    back: float = 0.5  # beta

    @property
    def measured(self) -> tuple[str, ...]:
        return (*super().measured, SAID)

    def init_server(self, task: Task, fed: Federation) -> State:
        return {**super().init_server(task, fed), _BACK: torch.tensor(False)}

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        down = super().download(_without(server), who, round, rng)
        if round < self.rounds:
            return down
        more = {_NOW: torch.tensor(True)} if round == self.rounds else {_BACK: server[_BACK]}
        return Download({**down.shared, **more}, down.each)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        sent = _without(down)
        if FLAG in down:
            if down[_BACK]:
                sent = {**sent, **drawn_back(model_of(sent), _first(client), self.back)}
            return super().local(task, client, sent, turn)
        said = self._tried(task, client, sent, turn) if _NOW in down else sent["params"].new_zeros(2)
        client, upload = super().local(task, client, sent, turn)
        return client, {**upload, SAID: said}

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds | None:
        kinds = super().upload_kinds(task, fed, Download(_without(down.shared), down.each))
        return {**kinds, SAID: Kind((2,), down.shared["params"].dtype)} if kinds else kinds

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        back = server[_BACK]
        if round == self.rounds:
            said = uploads[SAID].double().cpu()
            gains = said[:, 0] - said[:, 1]
            back = torch.tensor(worse(gains[gains != 0], MEDIANS))  # who says nothing is no middle silo either
        return {**super().aggregate(_without(server), who, _without(uploads), round), _BACK: back}

    def grow_server(self, task: Task, before: Federation, after: Federation, server: State) -> State:
        return {**super().grow_server(task, before, after, _without(server)), _BACK: server[_BACK]}

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return super().personal(task, client, None if down is None else _without(down), turn)

    def _tried(self, task: Task, client: State, down: State, turn: Turn) -> Tensor:
        """What becomes of both models at this silo.  # [2]"""
        whole = model_of(down)
        turn = turn._replace(data=Data(turn.data.mine, turn.data.val))
        if not judges(turn.data):
            return whole["params"].new_zeros(2)
        each = [
            tried_end(task, start, turn, self._limit, "rehearsal")  # both with the same batches
            for start in (whole, drawn_back(whole, _first(client), self.back))
        ]
        return torch.tensor(each).nan_to_num(nan=WORST).clamp(-WORST, WORST).to(whole["params"])


def drawn_back(model: Model, first: Model, share: float) -> Model:
    """A model drawn back towards the first one, by a share of the way. Statistics and counters are its own.

    >>> far, first = ({"params": torch.tensor([value]), "buffers": torch.tensor([value])} for value in (4.0, 1.0))
    >>> {key: value.item() for key, value in drawn_back(far, first, 0.5).items()}
    {'params': 2.5, 'buffers': 4.0}
    """
    return {**model, "params": torch.lerp(model["params"], first["params"].to(model["params"]), share)}


def _first(client: State) -> Model:
    """The first model, which a silo keeps until its ending."""
    return {key: client[KEPT[key]] for key in MODEL}


def _without(state: State) -> State:
    """The part of a state or a message that the method and its ending know of."""
    return {key: value for key, value in state.items() if key not in (SAID, _NOW, _BACK)}
