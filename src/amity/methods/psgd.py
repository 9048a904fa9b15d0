"""PSGD: one loop for models with a shared and a personal part, and six objectives for it.

PFedAtt's section 3 (general objective and Algorithm 1); its instances are named in psgd_objectives.py.

    min over s, beta_1..beta_m of (1/m) sum_i F_i(s, beta_i)
    (s_i, beta_i) <- (s_i, beta_i) - eta (c g_s, g_beta)        client in A_k, from s; every batch of its epochs
    s = mean of s_i                                             server, over A_k

Only the shared part and the buffers of its layers travel. A client keeps beta_i and its trained copy s_i, and is
evaluated with both.

Departures. The paper's omega = sqrt(m) s only scales the shared part: a step eta on omega is a step eta/m on s,
`shared_lr_scale = 1/m`; practice is c = 1. Its Algorithm 1 takes one step per round and Theorem 1 a number of them;
here it is the run's epochs. The printed sum over all m divided by |S| is read as the mean over A_k.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import (
    MODEL,
    Download,
    Federation,
    InputError,
    Kinds,
    Model,
    Solver,
    State,
    Turn,
    kinds_like,
    model_of,
)
from amity.learn.task import Task
from amity.learn.train import batches, descent, plain_sgd
from amity.methods.fedavg import FedAvg
from amity.methods.psgd_objectives import Joint, Objective


@dataclass(frozen=True)
class PSGD:
    objective: Objective
    shared_lr_scale: float | Literal["1/m"] = option(
        1.0, "rate of the shared part, as a multiple of lr; 1/m is the theory's", symbol="c", at_least=0
    )
    weighting: Literal["uniform", "samples"] = option("uniform", "weights of the mean: all equal, or n_i")

    paired: ClassVar[tuple[str, ...]] = ()
    averaged: ClassVar[tuple[str, ...]] = ("params", "buffers")
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[Solver] = Solver("sgd", 0.01)
    optimizers: ClassVar[tuple[str, ...]] = ("sgd",)

    def __post_init__(self) -> None:
        check(self)

    def accept(self, solver: Solver) -> None:
        plain_sgd("psgd", solver)
        pull = solver.rate * self.objective.attraction
        if pull >= 2:
            raise InputError(
                f"psgd needs lr * attraction to be < 2, or its steps overshoot ever further, got {pull:g}: "
                "set a smaller lr or attraction"
            )

    def init_server(self, task: Task, fed: Federation) -> State:
        shared, _ = self.objective.parts(task, task.initial(fed))
        return {**shared, "sizes": fed.sizes}

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        shared, own = self.objective.parts(task, task.initial(fed))
        return {**shared, **_as_own(own), "clients": torch.tensor(fed.clients)}

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return Download(model_of(server), {})

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        shared = {key: value.clone() for key, value in down.items()}
        own = {key: value.clone() for key, value in _own_of(client).items()}
        scale = 1 / int(client["clients"]) if self.shared_lr_scale == "1/m" else self.shared_lr_scale
        rate = turn.solver.rate_at(turn.round)
        joint = Joint(task, shared, own, descent(turn, shared["params"], scale * rate), descent(turn, own["params"]))
        for batch, rng in batches(task, turn):
            self.objective.step(joint, batch, rng)
        return {**client, **shared, **_as_own(own)}, shared

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return kinds_like(down.shared)  # a shared part comes back for each that was sent

    def gradients(self, epochs: int, batches: int) -> int:
        return self.objective.gradients_per_batch * epochs * batches

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return FedAvg(self.weighting).aggregate(server, who, uploads, round)

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return self.objective.model(task, model_of(client), _own_of(client))


def _as_own(model: Model) -> State:
    return {f"own_{key}": value for key, value in model.items()}


def _own_of(client: State) -> Model:
    return {key: client[f"own_{key}"] for key in MODEL}
