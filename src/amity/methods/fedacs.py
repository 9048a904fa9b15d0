"""FedACS: averaging over the clients whose cosine exceeds a global quantile; a plain local step.

Chen, Li and Shen, Personalized Federated Learning with Attention-based Client Selection, ICASSP 2024.

    thr = p-quantile of all s_ij,  s_ij = cosine of w_i and w_j
    u_i = sum_{s_ij > thr} s_ij w_j / sum_{s_ij > thr} s_ij                                     (4)
    w_i = Local(u_i, F_i)                                                                       (5)

Departures. The inequality is strict and the quantile counts the n ones of the diagonal, so thr can reach 1 and
even the client itself would fail it: self is always kept. Negative cosines can make the denominator zero or
negative: they are clipped to 0. Eq. 4 is eq. 3 with step 1; `damping` a gives u_i <- (1 - a) w_i + a u_i. Eq. 5 is
one full gradient step (`local = step`), the text says several: epochs by default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import Download, Federation, InputError, Kinds, Model, Solver, State, Turn, kinds_like, model_of
from amity.learn.task import Task
from amity.learn.vectors import cosines
from amity.methods import _mixing as cloud
from amity.methods._attention import above_quantile


@dataclass(frozen=True)
class FedACS:
    p: float | Literal["none"] = option(
        0.5,
        "quantile below which similarities are dropped; none keeps all",
        symbol="p",
        at_least=0,
        at_most=1,
        search="0:0.95",
    )
    damping: float = option(
        1.0, "share of the average in the new start", symbol="alpha_k", above=0, at_most=1, search="0.1:1"
    )
    local_work: Literal["epochs", "step"] = option("epochs", "local epochs, or one full gradient step", key="local")
    pool: Literal["active", "latest"] = option("active", "whose models may be mixed: this round's, or all heard")
    init: Literal["shared", "independent"] = option("shared", "one first model for all, or each its own")

    paired: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[Solver] = Solver("sgd", 0.01, batch=50)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")

    def __post_init__(self) -> None:
        check(self)

    def init_server(self, task: Task, fed: Federation) -> State:
        return cloud.with_pairs(cloud.first_models(task, fed, self.init), self.pool, cosines)

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return cloud.first_model(task, fed, client, self.init)

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        def rule(similar: Tensor, members: Tensor) -> Tensor:
            average = above_quantile(similar, None if self.p == "none" else self.p)
            return (1 - self.damping) * torch.eye(len(members), dtype=average.dtype) + self.damping * average

        return cloud.send(server, who, self.pool, cosines, rule)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        if self.local_work == "step":
            turn = turn._replace(epochs=1, solver=turn.solver._replace(batch=len(turn.data.train.y)))
        return cloud.proximal_step(task, client, down, turn, pull=0.0, start="cloud")

    def cloud_model(self, down: State) -> Model:
        return model_of(down)

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return kinds_like(task.initial(fed))

    def gradients(self, epochs: int, batches: int) -> int:
        if self.local_work == "step":
            raise InputError(
                "fedacs needs local=epochs under differential privacy, got step: a full gradient is no sample"
            )
        return epochs * batches

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return cloud.store(server, who, uploads, cosines)

    def grow_server(self, task: Task, before: Federation, after: Federation, server: State) -> State:
        return cloud.grow_pairs(server, before, after, cosines)

    def grow_client(self, task: Task, before: Federation, after: Federation, client: int, state: State) -> State:
        return state

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return model_of(client)
