"""Wrappers that change which model a method of one global model gives its clients.

    FineTuned   v_i^k = Local(w^k, F_i), for evaluation only; nothing is fed back   (Wang et al. 2019)
    LocalCopy   w_i, the client's copy after its own training and before averaging  (APPLE's "FedAvg-local")

Neither touches the global path. Both start from the same w^k, so with equal epochs and rate the fine-tuned model
of round k is the local copy of round k+1, to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from amity.config.options import check, option
from amity.contract import Federation, Model, State, Turn, gradients_of, model_of
from amity.learn.task import Task
from amity.learn.train import train
from amity.methods._wrapper import Wrapper


@dataclass(frozen=True)
class FineTuned(Wrapper):
    ft_epochs: int | Literal["same"] = option("same", "epochs of fine-tuning", symbol="E_ft", at_least=0)
    ft_lr: float | Literal["same"] = option("same", "rate of fine-tuning; decays as lr does", above=0)

    evaluates: ClassVar[Literal["held", "server"]] = "server"
    other_use: ClassVar[str] = "fine-tunes a model on its examples for every evaluation"

    def __post_init__(self) -> None:
        check(self)

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        model = self.base.personal(task, client, down, turn)
        if self.ft_epochs != "same":
            turn = turn._replace(epochs=self.ft_epochs)
        if self.ft_lr != "same":
            turn = turn._replace(solver=turn.solver._replace(rate=self.ft_lr))
        return train(task, model, turn)


@dataclass(frozen=True)
class LocalCopy(Wrapper):
    evaluates: ClassVar[Literal["held", "server"]] = "held"

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return {**self.base.init_client(task, fed, client), **task.initial(fed)}

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        state, upload = self.base.local(task, client, down, turn)
        return {**state, **model_of(upload)}, upload

    def gradients(self, epochs: int, batches: int) -> int:
        return gradients_of(self.base, epochs, batches)

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return model_of(client)
