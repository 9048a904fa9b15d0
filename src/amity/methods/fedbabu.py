"""FedBABU: only the body is trained together; the head waits at its first random values, then each client fine-tunes.

Oh, Kim and Yun, FedBABU: Towards Enhanced Representation for Federated Image Classification, ICLR 2022 (Algorithm 1).

    phi_i = Local(phi^{k-1}; F_i(., h^0))                     clients in A_k: the body, with the head that never moves
    phi^k = sum_i n_i phi_i / sum_i n_i                       server, over A_k
    v_i^k = Local([phi^k, h^0], F_i)                          for evaluation only; nothing is fed back

Fine-tuning moves body and head; `ft_part` has the paper's other choices. The head is sent with the body, since
clients keep nothing; what comes back is the body alone.

Departures. The paper fine-tunes for 5 epochs; here for as many as a round has, as `fedavg-ft` does, unless
`ft_epochs` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import MODEL, Download, Federation, Kinds, Model, Solver, State, Turn, kinds_like, model_of
from amity.learn.task import Task
from amity.learn.train import train
from amity.methods._layers import Chosen, head_of, ones, part, whole
from amity.methods.fedavg import FedAvg


@dataclass(frozen=True)
class FedBABU:
    head: str = option("last", "what waits: last, the last layer, or beginnings of parameter names: fc1,fc2")
    ft_epochs: int | Literal["same"] = option("same", "epochs of fine-tuning", symbol="tau_f", at_least=0)
    ft_lr: float | Literal["same"] = option("same", "rate of fine-tuning; decays as lr does", above=0)
    ft_part: Literal["all", "head", "body"] = option("all", "what is fine-tuned: the whole model, or one part of it")
    weighting: Literal["samples", "uniform"] = option("samples", "weights of the mean: n_i, or all equal")

    paired: ClassVar[tuple[str, ...]] = ()
    averaged: ClassVar[tuple[str, ...]] = ("params", "buffers")
    evaluates: ClassVar[Literal["held", "server"]] = "server"
    solver: ClassVar[Solver] = Solver("sgd", 0.1, momentum=0.9, batch=50)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")
    other_use: ClassVar[str] = "fine-tunes a model on its examples for every evaluation"

    def __post_init__(self) -> None:
        check(self)

    def init_server(self, task: Task, fed: Federation) -> State:
        first, head = task.initial(fed), self._head(task)
        waits = {f"head_{key}": value for key, value in part(task, first, head).items()}
        return {**part(task, first, head, False), **waits, "sizes": fed.sizes}

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return {}

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return Download({key: value for key, value in server.items() if key != "sizes"}, {})

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        head = self._head(task)
        model = train(task, self._model(task, down), turn, only=ones(task, head, False))
        return client, part(task, model, head, False)

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return kinds_like(model_of(down.shared))  # the body, without the head that was sent with it

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return FedAvg(self.weighting).aggregate(server, who, uploads, round)

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        assert down is not None  # a server method is always given the current download
        if self.ft_epochs != "same":
            turn = turn._replace(epochs=self.ft_epochs)
        if self.ft_lr != "same":
            turn = turn._replace(solver=turn.solver._replace(rate=self.ft_lr))
        only = None if self.ft_part == "all" else ones(task, self._head(task), self.ft_part == "head")
        return train(task, self._model(task, down), turn, only=only)

    def _model(self, task: Task, down: State) -> Model:
        head = {key: down[f"head_{key}"] for key in MODEL}
        return whole(task, head, model_of(down), self._head(task))

    def _head(self, task: Task) -> Chosen:
        return head_of(task, self.head, "fedbabu")
