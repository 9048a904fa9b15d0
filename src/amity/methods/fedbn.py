"""FedBN: FedAvg whose BatchNorm layers stay at each client.

Li, Jiang, Zhang, Kamp and Dou, FedBN: Federated Learning on Non-IID Features via Local Batch Normalization, ICLR 2021
(Algorithm 1).

    w = [s, b_i]                                              b_i: scales, shifts and statistics of BatchNorm
    [s_i, b_i] = Local([s^{k-1}, b_i], F_i)                   clients in A_k
    s^k = sum_i n_i s_i / sum_i n_i                           server, over A_k

A client keeps b_i, which never leaves it, and is evaluated with the current s^k and its own b_i.

Departures. The authors' program averages with equal weights; the paper's own FedAvg, with which it is compared,
weighs by n_i, and so does this (`weighting = uniform` is theirs). A model without BatchNorm keeps nothing at its
clients: then this is FedAvg to the last bit, and the run says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import Download, Federation, Kinds, Model, Solver, State, Turn, kinds_like, model_of
from amity.learn.task import Task
from amity.learn.train import train
from amity.methods._layers import batchnorm, part, whole
from amity.methods.fedavg import FedAvg

_NOTHING_LOCAL = "fedbn keeps BatchNorm layers local, but this model has none: this run is FedAvg"


@dataclass(frozen=True)
class FedBN:
    weighting: Literal["samples", "uniform"] = option("samples", "weights of the mean: n_i, or all equal")

    paired: ClassVar[tuple[str, ...]] = ()
    averaged: ClassVar[tuple[str, ...]] = ("params", "buffers")
    evaluates: ClassVar[Literal["held", "server"]] = "server"
    solver: ClassVar[Solver] = Solver("sgd", 0.01, batch=32)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")
    other_use: ClassVar[str] = "is about BatchNorm, whose statistics mix examples"

    def __post_init__(self) -> None:
        check(self)

    def init_server(self, task: Task, fed: Federation) -> State:
        shared = part(task, task.initial(fed), batchnorm(task), False)
        return {**shared, "sizes": fed.sizes, "normalisers": torch.tensor(len(task.normalisers))}

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return part(task, task.initial(fed), batchnorm(task))

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        alike = round == 1 and not int(server["normalisers"])
        return Download(model_of(server), {}, notes=(_NOTHING_LOCAL,) if alike else ())

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        model = train(task, self.personal(task, client, down, turn), turn)
        return part(task, model, batchnorm(task)), part(task, model, batchnorm(task), False)

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return kinds_like(down.shared)  # a shared part comes back for each that was sent

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return FedAvg(self.weighting).aggregate(server, who, uploads, round)

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        assert down is not None  # a server method is always given the current download
        return whole(task, client, down, batchnorm(task))
