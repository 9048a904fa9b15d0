"""Per-FedAvg: a global model from which one local gradient step makes a personal one.

Fallah et al., Personalized Federated Learning with Theoretical Guarantees: A Model-Agnostic Meta-Learning Approach,
NeurIPS 2020.

    minimise the mean over i of F_i(w - a grad F_i(w))

    every step on three batches b1, b2, b3, drawn independently of each other:                  clients in A_k, from w
        g = grad F_i(w - a grad F_i(w; b1); b2)
        FO  w_i <- w_i - beta g                                                                 first order
        HF  w_i <- w_i - beta (g - a q),                                                        Hessian-free
            q = (grad F_i(w_i + delta g; b3) - grad F_i(w_i - delta g; b3)) / (2 delta)
    w = mean of w_i                                                                             server, over A_k

beta is the solver's rate. The rate `adapt_lr` (a) belongs to the objective and does not decay. A client is
evaluated with w - a grad F_i(w), one step on all of its training data; `eval_model = global` evaluates w.

Departures. b2 are FedAvg's batches, so an epoch is as many steps as FedAvg's and a = 0 is FedAvg to the last bit;
b1 and b3 come from two more permutations of the same data. So batches of a small silo overlap but stay
independent and full, and no silo is too small for three of them. FO by default, as in the programs that others
compare with; unlike one of those, we never adapt on test data. BatchNorm statistics of w see b1 at w and nothing
else: not the trial points, not the adapted model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import Download, Federation, Kinds, Model, Solver, Split, State, Turn, model_of
from amity.learn.task import Task
from amity.learn.train import batches, gradient_at, plain_sgd, same_draws
from amity.methods.fedavg import FedAvg

_AT_ONCE = 1000  # examples whose gradient is taken in one go, for memory's sake


@dataclass(frozen=True)
class PerFedAvg:
    variant: Literal["FO", "HF"] = option("FO", "first-order, or Hessian-free")
    adapt_lr: float = option(
        0.01, "rate of the one step that personalises", symbol="a", at_least=0, search="1e-3:0.3:log"
    )
    delta: float = option(0.001, "length of the difference quotient (HF)", symbol="delta", above=0)
    eval_model: Literal["personal", "global"] = option("personal", "which model is evaluated and kept for use")
    weighting: Literal["samples", "uniform"] = option("uniform", "weights of the mean: n_i, or all equal")

    paired: ClassVar[tuple[str, ...]] = ()
    averaged: ClassVar[tuple[str, ...]] = ("params", "buffers")
    evaluates: ClassVar[Literal["held", "server"]] = "server"
    solver: ClassVar[Solver] = Solver("sgd", 0.001, batch=20)
    optimizers: ClassVar[tuple[str, ...]] = ("sgd",)
    other_use: ClassVar[str] = "takes a step on all examples for every evaluation"

    def __post_init__(self) -> None:
        check(self)

    def accept(self, solver: Solver) -> None:
        plain_sgd("perfedavg", solver)

    @property
    def _average(self) -> FedAvg:
        return FedAvg(self.weighting)

    def init_server(self, task: Task, fed: Federation) -> State:
        return self._average.init_server(task, fed)

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return {}

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return self._average.download(server, who, round, rng)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        rate = turn.solver.rate_at(turn.round)
        third = batches(task, turn, "curvature")
        model = model_of(down)
        for (b1, rng1), (b2, rng2) in zip(batches(task, turn, "adapt"), batches(task, turn), strict=True):
            slope, model = gradient_at(task, model, b1, rng1)
            direction = _aside(task, model, slope, -self.adapt_lr, b2, rng2)
            if self.variant == "HF":
                b3, rng3 = next(third)
                ahead = _aside(task, model, direction, self.delta, b3, same_draws(rng3))  # both under the same Dropout
                behind = _aside(task, model, direction, -self.delta, b3, rng3)
                direction = direction.sub(ahead - behind, alpha=self.adapt_lr / (2 * self.delta))
            model["params"].add_(direction, alpha=-rate)
        return client, model

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return self._average.upload_kinds(task, fed, down)

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return self._average.aggregate(server, who, uploads, round)

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        assert down is not None  # a server method is always given the current download
        if self.eval_model == "global":
            return down
        all_data = turn._replace(epochs=1, solver=turn.solver._replace(batch=_AT_ONCE))
        total, count = torch.zeros_like(down["params"]), 0
        for batch, rng in batches(task, all_data, "adapt"):
            total.add_(task.gradient(down, batch, rng)[1], alpha=len(batch.y))
            count += len(batch.y)
        return {**model_of(down), "params": down["params"].sub(total, alpha=self.adapt_lr / max(1, count))}


def _aside(task: Task, model: Model, direction: Tensor, length: float, batch: Split, rng: Generator | None) -> Tensor:
    """The gradient at a point beside the model, whose own buffers stay as they are."""
    there = {**model, "params": model["params"].add(direction, alpha=length)}
    return task.gradient(there, batch, rng)[1].clone()
