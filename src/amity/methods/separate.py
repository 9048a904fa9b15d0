"""Separate: every client trains alone. The lower reference.

    w_i^k = Local(w_i^{k-1}, F_i)

One round is E epochs, so that curves are comparable. The optimiser starts afresh every round, as in all methods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import Download, Federation, Kinds, Model, Solver, State, Turn, model_of
from amity.learn.task import Task
from amity.learn.train import train


@dataclass(frozen=True)
class Separate:
    init: Literal["shared", "independent"] = option("shared", "one first model for all, or each its own")

    paired: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[Solver] = Solver("adam", 1e-3)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")

    def __post_init__(self) -> None:
        check(self)

    def init_server(self, task: Task, fed: Federation) -> State:
        return {}

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return task.initial(fed, client if self.init == "independent" else None)

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return Download({}, {})

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        return train(task, model_of(client), turn), {}

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return {}

    def gradients(self, epochs: int, batches: int) -> int:
        return epochs * batches

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return server

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return model_of(client)
