"""Rehearsed: an ending that silos have tried before, to agree on where it begins, or that each goes alone.

    w^k       the common model, of which w^0 was the first
    h_s(w)    = w - s (w - w^0)                the same, drawn back towards the first one: s = 0, beta, 1

    round K      with its upload silo i says how an ending would turn out from the model that it was sent, w = w^{K-1},
                 as it is, drawn back part of the way, and all of it, which is training alone:
                 L_i(s)    minus the log-likelihood of its held-out examples under the model that the ending makes of
                 h_s(w) without these examples (`learn/ending.py`, steps 1 and 2)
    round K + 1  all begin from h_s(w), with the s for which
                 sum_i d_i min(1, c / |d_i|),   d_i = L_i(s) - L_i(0),   c = ten times the median of |d_i|,
                 is least, over the silos that say something; with s = 0 where no sum is below 0, and with s = 1 only
                 where the sum is also below -2 sqrt(sum_i d_i^2 min(1, c / |d_i|)^2): nobody leaves by chance

A common model that has come far may be so sure of the examples that it has seen that there is little left to learn from
them, although it is the better model *before* anybody goes on. Drawn back half-way it keeps what it has found, and can
still learn; the same is known of networks that are trained on when new data come (Ash and Adams, On Warm-Starting
Neural Network Training, NeurIPS 2020). And there are federations that had better not be one: silos have little in
common, and each has habits of its own, which a handful of examples teaches sooner without the others. Elsewhere every
step back is a loss, and a silo's few held-out examples cannot tell the one from the other. Those of all silos together
can, and three numbers from each are enough for it. No silo's word counts for more than ten of the middle one's; a liar
can at most choose between three models, from all of which each silo finds its own way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from amity.contract import Data, Download, Federation, Kind, Kinds, Model, State, Turn, model_of
from amity.learn.ending import End, judges, tried_end
from amity.learn.task import Task
from amity.methods._best_so_far import WORST, limited
from amity.methods.ended import FLAG, Ended, first_model, own_part

SAID = "rehearsal/said"
"""In an upload: L_i(0), L_i(beta), L_i(1); zeros before round K, and where a silo holds no examples out."""

MEDIANS = 10.0
"""How much more than the middle silo's word one may count."""

EVIDENT = 2.0
"""Standard errors by which all silos together must be better off alone before they are sent on alone: were both ways
equally good, this would happen to one federation of forty."""

_NOW = "rehearsal/now"  # of the download in round K: silos shall try an ending
_BACK = "rehearsal/back"  # of the server's state and the download after it: s, where endings begin
_ALONE = 1.0  # all the way back


@dataclass(frozen=True)
class Rehearsed(Ended):
    """A method with an ending whose silos agree in the last round on where it begins. `with_ending` makes it."""

    back: float = 0.5  # beta

    @property
    def measured(self) -> tuple[str, ...]:
        return (*super().measured, SAID)

    def init_server(self, task: Task, fed: Federation) -> State:
        return {**super().init_server(task, fed), _BACK: torch.tensor(0.0)}

    @property
    def shares(self) -> tuple[float, ...]:
        """s: how far back is tried."""
        return (0.0, self.back, _ALONE)

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        down = super().download(_without(server), who, round, rng)
        if round < self.rounds:
            return down
        more = {_NOW: torch.tensor(True)} if round == self.rounds else {_BACK: server[_BACK]}
        return Download({**down.shared, **more}, down.each)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        sent = _without(down)
        if FLAG in down:
            return super().local(task, client, {**sent, _BACK: down[_BACK]}, turn)
        said = self._tried(task, client, sent, turn) if _NOW in down else sent["params"].new_zeros(len(self.shares))
        client, upload = super().local(task, client, sent, turn)
        return client, {**upload, SAID: said}

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds | None:
        kinds = super().upload_kinds(task, fed, Download(_without(down.shared), down.each))
        return {**kinds, SAID: Kind((len(self.shares),), down.shared["params"].dtype)} if kinds else kinds

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        back = server[_BACK]
        if round == self.rounds:
            said = uploads[SAID].double().cpu()
            _, half_way, alone = (_told(said[:, place] - said[:, 0]) for place in range(len(self.shares)))
            back = torch.tensor(self.back if half_way.sum() < 0 else 0.0)
            if alone.sum() < min(float(half_way.sum()), -EVIDENT * float(alone.square().sum().sqrt())):
                back = torch.tensor(_ALONE)
        return {**super().aggregate(_without(server), who, _without(uploads), round), _BACK: back}

    def grow_server(self, task: Task, before: Federation, after: Federation, server: State) -> State:
        return {**super().grow_server(task, before, after, _without(server)), _BACK: server[_BACK]}

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return super().personal(task, client, None if down is None else _without(down), turn)

    def _ends(self, task: Task, client: State, sent: State | None, turn: Turn) -> list[End]:
        assert sent is not None  # a method that rehearses has a common model
        share, common = float(sent[_BACK]), _without(sent)
        if not judges(turn.data):  # it does not go on alone, and what is drawn back is no model to be delivered
            return super()._ends(task, client, common, turn)
        back = {**common, **drawn_back(model_of(common), first_model(client), share)}
        if share < _ALONE:
            return super()._ends(task, client, back, turn)
        others = self._starts(task, own_part(client), back, turn)[1:]
        return [self._alone(task, client, turn), *(self._end(task, start, turn) for start in others)]

    def _tried(self, task: Task, client: State, down: State, turn: Turn) -> Tensor:
        """What becomes of each of these models at this silo.  # [3]"""
        whole = model_of(down)
        turn = turn._replace(data=Data(turn.data.mine, turn.data.val))
        if not judges(turn.data):
            return whole["params"].new_zeros(len(self.shares))
        each = [
            tried_end(
                task,
                drawn_back(whole, first_model(client), share),
                turn,
                self._limit if share < _ALONE else self._limit_alone,
                "rehearsal",  # all with the same batches
            )
            for share in self.shares
        ]
        return torch.tensor(each).nan_to_num(nan=WORST).clamp(-WORST, WORST).to(whole["params"])


def drawn_back(model: Model, first: Model, share: float) -> Model:
    """A model drawn back towards the first one, by a share of the way. Statistics and counters are its own on the way.

    >>> far, first = ({"params": torch.tensor([value]), "buffers": torch.tensor([value])} for value in (4.0, 1.0))
    >>> {key: value.item() for key, value in drawn_back(far, first, 0.5).items()}
    {'params': 2.5, 'buffers': 4.0}
    """
    if share == _ALONE:
        return first
    return {**model, "params": torch.lerp(model["params"], first["params"].to(model["params"]), share)}


def _told(differences: Tensor) -> Tensor:
    """What counts of silos' differences: of those that say something, for who says nothing is no middle silo either."""
    return limited(differences[differences != 0], MEDIANS)


def _without(state: State) -> State:
    """The part of a state or a message that the method and its ending know of."""
    return {key: value for key, value in state.items() if key not in (SAID, _NOW, _BACK)}
