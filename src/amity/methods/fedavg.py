"""FedAvg: one global model by weighted averaging.

McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017.

    w_i = Local(w^{k-1}, F_i)                                 clients in A_k
    w^k = sum_i n_i w_i / sum_i n_i                           server, over A_k

Everybody is evaluated with the current w^k. With `fedavg-local` a client keeps its trained copy w_i instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import Download, Federation, Kinds, Model, Solver, State, Turn, kinds_like, model_of
from amity.learn.task import Task
from amity.learn.train import train
from amity.learn.vectors import weighted_mean


@dataclass(frozen=True)
class FedAvg:
    weighting: Literal["samples", "uniform"] = option("samples", "weights of the mean: n_i, or all equal")

    paired: ClassVar[tuple[str, ...]] = ()
    averaged: ClassVar[tuple[str, ...]] = ("params", "buffers")
    evaluates: ClassVar[Literal["held", "server"]] = "server"
    solver: ClassVar[Solver] = Solver("adam", 1e-3)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")

    def __post_init__(self) -> None:
        check(self)

    def init_server(self, task: Task, fed: Federation) -> State:
        return {**task.initial(fed), "sizes": fed.sizes}

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return {}

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return Download(model_of(server), {})

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        return client, train(task, down, turn)

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return kinds_like(task.initial(fed))

    def gradients(self, epochs: int, batches: int) -> int:
        return epochs * batches

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        sizes = server["sizes"][who]
        weights = sizes if self.weighting == "samples" else sizes.new_ones(len(who))
        return {**server, **weighted_mean(uploads, weights)}

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        assert down is not None  # a server method is always given the current download
        return down
