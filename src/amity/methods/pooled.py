"""Pooled: one model on the data of all silos together, the upper reference. In a simulation only.

    w^k = Local(w^{k-1}, F),   F the mean loss over all training examples

It is FedAvg on a federation in which every training example lies at the first silo and the others, with none, have
weight 0 (`Silos.pooled`; `amity run` makes it so). The same w^k is evaluated on every silo's test set. Data that may
be pooled need no federation: the messages that a simulation counts mean nothing here.

With an ending, silos go on from the w^k that does best on examples that all of them have held out (`_best_so_far.py`).
On all data in one place fifteen rounds are often too many: the model then knows the examples by heart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Generator, Tensor

from amity.contract import Download, Federation, Kinds, Model, Solver, State, Turn, model_of
from amity.learn.task import Task
from amity.methods._best_so_far import best_so_far, judged, judged_kind, nothing_judged, to_go_on_from
from amity.methods.fedavg import FedAvg

_AVERAGE = FedAvg("samples")  # equal weights would count the silos that have nothing


@dataclass(frozen=True)
class Pooled:
    paired: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[Literal["held", "server"]] = "server"
    solver: ClassVar[Solver] = _AVERAGE.solver
    optimizers: ClassVar[tuple[str, ...]] = _AVERAGE.optimizers
    other_use: ClassVar[str] = "has all data in one place, where no silo has an epsilon of its own"

    def init_server(self, task: Task, fed: Federation) -> State:
        first = _AVERAGE.init_server(task, fed)
        return {**first, **nothing_judged(first, fed)}

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return {}

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return _AVERAGE.download(server, who, round, rng)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        client, upload = _AVERAGE.local(task, client, down, turn)
        return client, {**upload, **judged(task, down, turn)}

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return {**_AVERAGE.upload_kinds(task, fed, down), **judged_kind(down.shared)}

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        best = best_so_far(server, who, uploads, round)
        return {**_AVERAGE.aggregate(server, who, model_of(uploads), round), **best}

    def last_download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return Download(to_go_on_from(server, round), {})

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return _AVERAGE.personal(task, client, down, turn)
