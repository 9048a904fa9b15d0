"""Pooled: one model on the data of all silos together, the upper reference. In a simulation only.

    w^k = Local(w^{k-1}, F),   F the mean loss over all training examples

It is FedAvg on a federation in which every training example lies at the first silo and the others, with none, have
weight 0 (`Silos.pooled`; `amity run` makes it so). The same w^k is evaluated on every silo's test set. Data that may
be pooled need no federation: the messages that a simulation counts mean nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Generator, Tensor

from amity.contract import Download, Federation, Kinds, Model, Solver, State, Turn
from amity.learn.task import Task
from amity.methods.fedavg import FedAvg

_AVERAGE = FedAvg("samples")  # equal weights would count the silos that have nothing


@dataclass(frozen=True)
class Pooled:
    paired: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[Literal["held", "server"]] = "server"
    solver: ClassVar[Solver] = _AVERAGE.solver
    optimizers: ClassVar[tuple[str, ...]] = _AVERAGE.optimizers

    def init_server(self, task: Task, fed: Federation) -> State:
        return _AVERAGE.init_server(task, fed)

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return {}

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return _AVERAGE.download(server, who, round, rng)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        return _AVERAGE.local(task, client, down, turn)

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return _AVERAGE.upload_kinds(task, fed, down)

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return _AVERAGE.aggregate(server, who, uploads, round)

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return _AVERAGE.personal(task, client, down, turn)
