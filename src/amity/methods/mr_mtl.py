"""MR-MTL: personal models that go on from themselves and are drawn to their mean.

Liu, Hu, Wu and Smith, On Privacy and Personalization in Cross-Silo Federated Learning, NeurIPS 2022: mean-regularised
multi-task learning. The paper's noise is the run's (`--dp-epsilon`), and not part of the method.

    min over w_1..w_m of sum_i F_i(w_i) + (lambda/2) |w_i - mean of w|^2
    w_i ~ argmin F_i(w) + (lambda/2) |w - u^{k-1}|^2          clients in A_k, started at w_i
    u^k = mean of w_i                                         server, over A_k

lambda = 0 is separate training; the larger it is, the closer all models stay together. A client is evaluated with
w_i.

Others are near, none is the same. Ditto is drawn to FedAvg's model, which is trained as if no personal model existed;
here the centre is the mean of the personal models themselves. `psgd-mixture` has this objective, but its centre is a
variable that takes steps of its own towards the personal models and lags behind their mean; `l2gd` throws coins for
when to go to it.

Departures. With silos that are absent the mean is over those of the round; the paper has all silos in all rounds.
Buffers stay at the client.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import Download, Federation, InputError, Kind, Kinds, Model, Solver, State, Turn, model_of
from amity.learn.task import Task
from amity.learn.train import proximal, train
from amity.learn.vectors import mix


@dataclass(frozen=True)
class MRMTL:
    attraction: float = option(1.0, "pull towards the mean of all", symbol="lambda", at_least=0, search="0.01:10:log")
    weighting: Literal["uniform", "samples"] = option("uniform", "weights of the mean: all equal, or n_i")

    paired: ClassVar[tuple[str, ...]] = ()
    averaged: ClassVar[tuple[str, ...]] = ("params",)
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[Solver] = Solver("sgd", 0.01, batch=32)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")

    def __post_init__(self) -> None:
        check(self)

    def accept(self, solver: Solver) -> None:
        if solver.optimizer == "sgd" and solver.rate * self.attraction >= 2:
            raise InputError(
                f"mr-mtl needs lr x attraction < 2 with sgd, got {solver.rate:g} x {self.attraction:g}: "
                f"the pull alone would diverge, set lr below {2 / self.attraction:g}"
            )

    def init_server(self, task: Task, fed: Federation) -> State:
        return {"params": task.initial(fed)["params"], "sizes": fed.sizes}

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return task.initial(fed)

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return Download({"params": server["params"]}, {})

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        terms = [proximal(self.attraction, down["params"])] if self.attraction else []
        model = train(task, client, turn, terms=terms)
        return model, {"params": model["params"]}

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return {"params": Kind((task.size,), task.dtype)}

    def gradients(self, epochs: int, batches: int) -> int:
        return epochs * batches

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        sizes = server["sizes"][who].double()
        weights = sizes if self.weighting == "samples" and sizes.any() else sizes.new_ones(len(who))
        return {**server, "params": mix((weights / weights.sum())[None], uploads["params"])[0]}

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return model_of(client)
