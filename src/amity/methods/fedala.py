"""FedALA: each client mixes the global model into its own, number by number, by weights that it learns.

Zhang, Hua, Wang, Song, Xue, Ma and Guan, FedALA: Adaptive Local Aggregation for Personalized Federated Learning, AAAI
2023 (Algorithm 1; eq. 4 and 5).

    v_i = w_i + (w^{k-1} - w_i) * [1, W_i]                    W_i in [0, 1] in the last p layers, 1 below them
    W_i <- clip(W_i - eta (w^{k-1} - w_i) * grad F_i(v_i))    on a share s of the data, batch by batch; first W_i = 1
    w_i = Local(v_i, F_i)                                     clients in A_k
    w^k = sum_i n_i w_i / sum_i n_i                           server, over A_k

The first time that a client's model and the global one differ, W_i is learnt until it has converged: until the
standard deviation of the last 10 losses, one for each pass, is below 0.1. From then on it is one pass a round. W_i
stays at the client, which is evaluated with w_i. With p = 0 this is `fedavg-local` to the last bit.

Departures. Layers are counted as modules, with their bias, where the authors' program counts tensors: its default of
2 is p = 1. Its sample of the data is a run of neighbours; here it is drawn at random, anew in every round. Learning
ends after 100 passes, also where the losses have not come to rest; the program goes on for ever. It evaluates v_i;
here a client is evaluated with what it has trained. Buffers are the global model's until local training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import Data, Download, Federation, Kinds, Model, Solver, Split, State, Turn, model_of
from amity.learn.streams import order
from amity.learn.task import Task
from amity.learn.train import batches, train
from amity.methods._layers import last_layers
from amity.methods.fedavg import FedAvg

LOSSES, REST, PASSES = 10, 0.1, 100  # losses that are looked at, their deviation at rest, passes at the most


@dataclass(frozen=True)
class FedALA:
    layers: int = option(1, "how many of the last layers have weights that are learnt", symbol="p", at_least=0)
    share: float = option(0.8, "share of the training data that weights are learnt on", symbol="s", above=0, at_most=1)
    eta: float = option(1.0, "rate of the weights", symbol="eta", at_least=0, search="0.1:10:log")
    weighting: Literal["samples", "uniform"] = option("samples", "weights of the mean: n_i, or all equal")

    paired: ClassVar[tuple[str, ...]] = ()
    averaged: ClassVar[tuple[str, ...]] = ("params", "buffers")
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[Solver] = Solver("sgd", 0.005, batch=10)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")
    other_use: ClassVar[str] = "learns the weights of a mixture by the losses of its examples"

    def __post_init__(self) -> None:
        check(self)

    @property
    def _average(self) -> FedAvg:
        return FedAvg(self.weighting)

    def init_server(self, task: Task, fed: Federation) -> State:
        return self._average.init_server(task, fed)

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        weights = torch.ones(task.size - last_layers(task, self.layers), dtype=task.dtype, device=task.device)
        return {**task.initial(fed), "weights": weights, "converged": torch.tensor(False)}

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return self._average.download(server, who, round, rng)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        begin = last_layers(task, self.layers)
        own, start = client["params"][begin:], model_of(down)
        apart = down["params"][begin:] - own
        weights, converged = client["weights"], client["converged"]
        if bool(apart.any()):
            start["params"] = start["params"].clone()
            weights, converged = self._learnt(task, client, start, turn), torch.tensor(True)
            start["params"][begin:] = own + apart * weights
        model = train(task, start, turn)
        return {**client, **model, "weights": weights, "converged": converged}, model

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return self._average.upload_kinds(task, fed, down)

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return self._average.aggregate(server, who, uploads, round)

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return model_of(client)

    def _learnt(self, task: Task, client: State, received: Model, turn: Turn) -> Tensor:
        """The weights after a pass over a sample of the client's data; the first time, after as many as they need."""
        begin = last_layers(task, self.layers)
        own, weights = client["params"][begin:], client["weights"]
        apart = received["params"][begin:] - own
        sample = turn._replace(epochs=1, data=drawn(turn, self.share))
        model = task.working(received)
        mixed = model["params"][begin:]  # a view: what it is set to is what the next gradient is at
        mixed.copy_(own + apart * weights)
        losses: list[float] = []
        for number in range(1 if bool(client["converged"]) else PASSES):
            loss = torch.zeros(())
            for batch, rng in batches(task, sample, f"weights {number}"):
                loss, gradient = task.gradient(model, batch, rng)
                weights = (weights - self.eta * apart * gradient[begin:]).clamp_(0, 1)
                mixed.copy_(own + apart * weights)
            losses.append(float(loss))
            if at_rest(losses):
                break
        return weights


def drawn(turn: Turn, share: float) -> Data:
    """A random share of the turn's training data, one example at least where there is one."""
    x, y = turn.data.train
    count = max(min(1, len(y)), int(share * len(y)))
    chosen = order(turn.seed("weights", 0), len(y))[:count].to(y.device)
    return Data(Split(x[chosen], y[chosen]), None)


def at_rest(losses: list[float]) -> bool:
    """Whether more than 10 losses are known and the last 10 of them hardly differ."""
    if len(losses) <= LOSSES:
        return False
    return float(torch.tensor(losses[-LOSSES:], dtype=torch.float64).std(correction=0)) < REST
