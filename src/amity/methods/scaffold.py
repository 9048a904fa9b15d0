"""SCAFFOLD: one global model; control variates take the clients' drift out of their local steps.

Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML 2020.

    y <- y - eta_l (g_i(y) - c_i + c),  S times from y = x             clients in A_k
    c_i^+ = c_i - c + (x - y_i) / (S eta_l)                            option II
    x <- x + eta_g/|A_k| sum_{A_k} (y_i - x)                           server
    c <- c + 1/m sum_{A_k} (c_i^+ - c_i)

So c is the mean of all m c_i after every round, whoever takes part; a client whose upload is lost takes its c_i
back. S counts the batches really taken. Plain SGD only: with momentum or Adam (x - y_i) / (S eta_l) is no longer
the mean of the gradients, and c_i no longer a gradient.

Departures. Option I (a full gradient at x) is not offered. Where the paper uploads y_i - x, the client uploads y_i:
the server knows x, and no digits are lost. BatchNorm statistics are averaged with the models. The paper evaluates x;
the numbers that others report for it as a baseline on non-IID data can only be of y_i, the client's trained copy:
`eval_model = local`; `global` is the paper's.
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
from amity.learn.train import plain_sgd, steps, train
from amity.learn.vectors import mix, weighted_mean


@dataclass(frozen=True)
class Scaffold:
    eta_g: float = option(1.0, "rate of the server", symbol="eta_g", above=0, search="0.1:2:log")
    eval_model: Literal["local", "global"] = option("local", "what is evaluated: y_i, or x", symbol="y_i, x")

    paired: ClassVar[tuple[str, ...]] = ("control",)
    averaged: ClassVar[tuple[str, ...]] = ("params", "buffers", "control")
    solver: ClassVar[Solver] = Solver("sgd", 1e-2, batch=100)
    optimizers: ClassVar[tuple[str, ...]] = ("sgd",)

    def __post_init__(self) -> None:
        check(self)

    @property
    def evaluates(self) -> Literal["held", "server"]:
        return "held" if self.eval_model == "local" else "server"

    def accept(self, solver: Solver) -> None:
        plain_sgd("scaffold", solver)

    def init_server(self, task: Task, fed: Federation) -> State:
        first = task.initial(fed)
        return {**first, "control": torch.zeros_like(first["params"]), "clients": torch.tensor(fed.clients)}

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        first = task.initial(fed)
        held = first if self.eval_model == "local" else {}
        return {**held, "control": torch.zeros_like(first["params"])}

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return Download({**model_of(server), "control": server["control"]}, {})

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        correction = down["control"] - client["control"]
        model = train(task, model_of(down), turn, terms=[lambda params: correction])
        length = steps(task, turn) * turn.solver.rate_at(turn.round)  # S eta_l
        change = torch.zeros_like(correction)  # c_i^+ - c_i; who took no step has seen no gradient
        if length:
            change = (down["params"] - model["params"]) / length - down["control"]
        held = model if self.eval_model == "local" else {}
        return {**held, "control": client["control"] + change}, {**model, "control": change}

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        first = task.initial(fed)
        return kinds_like({**first, "control": first["params"]})

    def gradients(self, epochs: int, batches: int) -> int:
        return epochs * batches

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        mean = weighted_mean(model_of(uploads), torch.ones(len(who)))
        share = torch.full((1, len(who)), 1 / int(server["clients"]), dtype=torch.float64)
        return {
            **server,
            **mean,
            "params": torch.lerp(server["params"], mean["params"], self.eta_g),  # at eta_g = 1 the mean itself
            "control": server["control"] + mix(share, uploads["control"])[0],
        }

    def grow_server(self, task: Task, before: Federation, after: Federation, server: State) -> State:
        """c stays the mean of all c_i when silos join whose c_i is 0."""
        return {**server, "control": server["control"] * (before.clients / after.clients)}

    def grow_client(self, task: Task, before: Federation, after: Federation, client: int, state: State) -> State:
        return state

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        if self.eval_model == "local":
            return model_of(client)
        assert down is not None  # a server method is always given the current download
        return model_of(down)
