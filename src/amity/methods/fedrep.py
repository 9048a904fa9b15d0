"""FedRep: a shared body that computes features, and a head for each client, trained in turn.

Collins, Hassani, Mokhtari and Shakkottai, Exploiting Shared Representations for Personalized Federated Learning, ICML
2021 (Algorithm 1; phi is the body, h_i the head of client i).

    h_i = Local(h_i; F_i(phi^{k-1}, .))                       clients in A_k: the head, with the body as received
    phi_i = Local(phi^{k-1}; F_i(., h_i))                     then the body, with the new head
    phi^k = sum_i n_i phi_i / sum_i n_i                       server, over A_k

Only the body and its buffers travel. A client keeps its head and is evaluated with it on the current body phi^k.

Departures. The paper trains the head for 10 epochs and the body for 1 (5 on some data); here the head has the run's
epochs, so that `--epochs 10` is the paper's, and the body 1. Its theory averages with equal weights, its program by
n_i: `weighting`. The last round of the program, in which all clients train their heads once more, is left out.
BatchNorm statistics of the body advance while either part is trained.
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
from amity.methods._layers import Chosen, head_of, ones, part, whole
from amity.methods.fedavg import FedAvg


@dataclass(frozen=True)
class FedRep:
    head: str = option("last", "what stays local: last, the last layer, or beginnings of parameter names: fc1,fc2")
    head_epochs: int | Literal["same"] = option(
        "same", "epochs of the head; same: the run's", symbol="tau_h", at_least=0
    )
    body_epochs: int | Literal["same"] = option(
        1, "epochs of the body, after the head; same: the run's", symbol="tau_phi", at_least=0
    )
    weighting: Literal["samples", "uniform"] = option("samples", "weights of the mean: n_i, or all equal")

    paired: ClassVar[tuple[str, ...]] = ()
    averaged: ClassVar[tuple[str, ...]] = ("params", "buffers")
    evaluates: ClassVar[Literal["held", "server"]] = "server"
    solver: ClassVar[Solver] = Solver("sgd", 0.01, momentum=0.5, batch=10)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")

    def __post_init__(self) -> None:
        check(self)

    def init_server(self, task: Task, fed: Federation) -> State:
        return {**part(task, task.initial(fed), self._head(task), False), "sizes": fed.sizes}

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return part(task, task.initial(fed), self._head(task))

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return Download(model_of(server), {})

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        head = self._head(task)
        first = turn if self.head_epochs == "same" else turn._replace(epochs=self.head_epochs)
        then = turn if self.body_epochs == "same" else turn._replace(epochs=self.body_epochs)
        model = train(task, whole(task, client, down, head), first, only=ones(task, head), role="head")
        model = train(task, model, then, only=ones(task, head, False))
        return part(task, model, head), part(task, model, head, False)

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return kinds_like(down.shared)  # a body comes back for each that was sent

    def gradients(self, epochs: int, batches: int) -> int:
        trained = (epochs if asked == "same" else asked for asked in (self.head_epochs, self.body_epochs))
        return sum(trained) * batches

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return FedAvg(self.weighting).aggregate(server, who, uploads, round)

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        assert down is not None  # a server method is always given the current download
        return whole(task, client, down, self._head(task))

    def _head(self, task: Task) -> Chosen:
        return head_of(task, self.head, "fedrep")
