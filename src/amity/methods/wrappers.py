"""Wrappers that change which model a method of one global model gives its clients.

    FineTuned   v_i^k = Local(w^k, F_i), for evaluation only; nothing is fed back   (Wang et al. 2019)
    LocalCopy   w_i, the client's copy after its own training and before averaging  (APPLE's "FedAvg-local")

Neither touches the global path. Both start from the same w^k, so with equal epochs and rate the fine-tuned model
of round k is the local copy of round k+1, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import (
    Download,
    Federation,
    Grows,
    Kinds,
    Method,
    Model,
    Solver,
    State,
    Turn,
    averaged_keys,
    declared,
    gradients_of,
    model_of,
)
from amity.learn.task import Task
from amity.learn.train import train


@dataclass(frozen=True)
class FineTuned:
    base: Method
    ft_epochs: int | Literal["same"] = option("same", "epochs of fine-tuning", symbol="E_ft", at_least=0)
    ft_lr: float | Literal["same"] = option("same", "rate of fine-tuning; decays as lr does", above=0)

    evaluates: ClassVar[Literal["held", "server"]] = "server"
    other_use: ClassVar[str] = "fine-tunes a model on its examples for every evaluation"

    def __post_init__(self) -> None:
        check(self)

    @property
    def paired(self) -> tuple[str, ...]:
        return self.base.paired

    @property
    def averaged(self) -> tuple[str, ...]:
        return averaged_keys(self.base)

    @property
    def solver(self) -> Solver:
        return self.base.solver

    @property
    def optimizers(self) -> tuple[str, ...]:
        return self.base.optimizers

    def init_server(self, task: Task, fed: Federation) -> State:
        return self.base.init_server(task, fed)

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return self.base.init_client(task, fed, client)

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return self.base.download(server, who, round, rng)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        return self.base.local(task, client, down, turn)

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds | None:
        return declared(self.base, task, fed, down)

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return self.base.aggregate(server, who, uploads, round)

    def grow_server(self, task: Task, before: Federation, after: Federation, server: State) -> State:
        return self.base.grow_server(task, before, after, server) if isinstance(self.base, Grows) else server

    def grow_client(self, task: Task, before: Federation, after: Federation, client: int, state: State) -> State:
        return self.base.grow_client(task, before, after, client, state) if isinstance(self.base, Grows) else state

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        model = self.base.personal(task, client, down, turn)
        if self.ft_epochs != "same":
            turn = turn._replace(epochs=self.ft_epochs)
        if self.ft_lr != "same":
            turn = turn._replace(solver=turn.solver._replace(rate=self.ft_lr))
        return train(task, model, turn)


@dataclass(frozen=True)
class LocalCopy:
    base: Method

    evaluates: ClassVar[Literal["held", "server"]] = "held"

    @property
    def paired(self) -> tuple[str, ...]:
        return self.base.paired

    @property
    def averaged(self) -> tuple[str, ...]:
        return averaged_keys(self.base)

    @property
    def solver(self) -> Solver:
        return self.base.solver

    @property
    def optimizers(self) -> tuple[str, ...]:
        return self.base.optimizers

    def init_server(self, task: Task, fed: Federation) -> State:
        return self.base.init_server(task, fed)

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return {**self.base.init_client(task, fed, client), **task.initial(fed)}

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return self.base.download(server, who, round, rng)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        state, upload = self.base.local(task, client, down, turn)
        return {**state, **model_of(upload)}, upload

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds | None:
        return declared(self.base, task, fed, down)

    def gradients(self, epochs: int, batches: int) -> int:
        return gradients_of(self.base, epochs, batches)

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return self.base.aggregate(server, who, uploads, round)

    def grow_server(self, task: Task, before: Federation, after: Federation, server: State) -> State:
        return self.base.grow_server(task, before, after, server) if isinstance(self.base, Grows) else server

    def grow_client(self, task: Task, before: Federation, after: Federation, client: int, state: State) -> State:
        return self.base.grow_client(task, before, after, client, state) if isinstance(self.base, Grows) else state

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return model_of(client)
