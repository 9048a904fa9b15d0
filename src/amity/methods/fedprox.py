"""FedProx: FedAvg whose clients are held near the global model.

Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020.

    w_i ~ argmin F_i(w) + (mu/2) |w - w^{k-1}|^2              clients in A_k, started at w^{k-1}
    w^k = sum_i n_i w_i / sum_i n_i                           server, over A_k

The original samples clients by size and averages uniformly; here sampling is uniform, as in the papers that use it
as a baseline. `weighting = uniform` gives its average.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import Download, Federation, Kinds, Model, Solver, State, Turn
from amity.learn.task import Task
from amity.learn.train import proximal, train
from amity.methods.fedavg import FedAvg


@dataclass(frozen=True)
class FedProx:
    mu: float = option(0.01, "pull towards the global model", symbol="mu", at_least=0, search="1e-4:1:log")
    weighting: Literal["samples", "uniform"] = option("samples", "weights of the mean: n_i, or all equal")

    paired: ClassVar[tuple[str, ...]] = ()
    averaged: ClassVar[tuple[str, ...]] = ("params", "buffers")
    evaluates: ClassVar[Literal["held", "server"]] = "server"
    solver: ClassVar[Solver] = Solver("adam", 1e-3)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")

    def __post_init__(self) -> None:
        check(self)

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
        terms = [proximal(self.mu, down["params"])] if self.mu else []
        return client, train(task, down, turn, terms=terms)

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return self._average.upload_kinds(task, fed, down)

    def gradients(self, epochs: int, batches: int) -> int:
        return epochs * batches

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return self._average.aggregate(server, who, uploads, round)

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return self._average.personal(task, client, down, turn)
