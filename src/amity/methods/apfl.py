"""APFL: each client mixes a local model with its copy of the global one.

Deng et al., Adaptive Personalized Federated Learning, 2020.

    vbar_i = alpha_i v_i + (1 - alpha_i) w_i                    alpha_i is the weight of the local model
    w_i <- w_i - eta grad F_i(w_i; b)                           client, from w, every batch b
    v_i <- v_i - eta alpha_i grad F_i(vbar_i; b)                with the w_i just updated
    alpha_i <- clip(alpha_i - eta <grad F_i(vbar_i; b), v_i - w_i>, 0, 1)    `adaptive`: first batch of a round
    w = mean of w_i                                             server, over A_k

A client is evaluated with vbar_i: its v_i and the w_i it trained last, not the mean. It keeps v_i, w_i and alpha_i.

Departures. The pseudo-code takes both gradients at the old w_i; the authors' program, and we, at the updated one.
That program mixes the outputs of two networks and adds 0.02 alpha to the gradient of alpha; we mix parameters and
add nothing, as the paper defines it. alpha is updated once per round, as in that program, from the v_i and w_i
behind the gradient, and used from the next batch on. Fixed by default, as in the experiments of Huang et al. (2021),
which chose 0.25 in most settings that are not IID. BatchNorm statistics of vbar_i stay at the client.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import Download, Federation, Kinds, Model, Solver, State, Turn, model_of
from amity.learn.task import Task
from amity.learn.train import batches, gradient_at, plain_sgd, same_draws
from amity.methods.fedavg import FedAvg


@dataclass(frozen=True)
class APFL:
    alpha: float = option(
        0.25, "weight of the local model, at first", symbol="alpha_i", at_least=0, at_most=1, search="0:1"
    )
    adaptive: bool = option(False, "learn alpha, one step per round")
    weighting: Literal["samples", "uniform"] = option("uniform", "weights of the mean: n_i, or all equal")

    paired: ClassVar[tuple[str, ...]] = ()
    averaged: ClassVar[tuple[str, ...]] = ("params", "buffers")
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[Solver] = Solver("sgd", 0.01)
    optimizers: ClassVar[tuple[str, ...]] = ("sgd",)

    def __post_init__(self) -> None:
        check(self)

    def accept(self, solver: Solver) -> None:
        plain_sgd("apfl", solver)

    @property
    def _average(self) -> FedAvg:
        return FedAvg(self.weighting)

    def init_server(self, task: Task, fed: Federation) -> State:
        return self._average.init_server(task, fed)

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        first = task.initial(fed)
        return {**first, "copy": first["params"], "alpha": torch.tensor(self.alpha, dtype=torch.float64)}

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return self._average.download(server, who, round, rng)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        rate = turn.solver.rate_at(turn.round)
        alpha = float(client["alpha"])
        copy, own, mixed = model_of(down), client["params"], model_of(client)  # w_i, v_i, vbar_i
        for step, (batch, rng) in enumerate(batches(task, turn)):
            same_rng = same_draws(rng)
            gradient, copy = gradient_at(task, copy, batch, rng)
            copy["params"].add_(gradient, alpha=-rate)
            gradient, mixed = gradient_at(task, {**mixed, "params": _mix(alpha, own, copy["params"])}, batch, same_rng)
            behind = own
            own = own.add(gradient, alpha=-rate * alpha)
            if self.adaptive and step == 0:
                slope = float(gradient @ (behind - copy["params"]))  # dF_i(vbar_i) / d alpha_i
                alpha = min(1.0, max(0.0, alpha - rate * slope))
        kept = {**mixed, "params": own, "copy": copy["params"], "alpha": client["alpha"].new_tensor(alpha)}
        return kept, copy

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return self._average.upload_kinds(task, fed, down)

    def gradients(self, epochs: int, batches: int) -> int:
        return 2 * epochs * batches

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return self._average.aggregate(server, who, uploads, round)

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return {**model_of(client), "params": _mix(float(client["alpha"]), client["params"], client["copy"])}


def _mix(alpha: float, own: Tensor, copy: Tensor) -> Tensor:
    return alpha * own + (1 - alpha) * copy
