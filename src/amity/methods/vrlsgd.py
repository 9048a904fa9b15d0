"""VRL-SGD: local SGD whose steps are corrected by how far each client drifted from the mean; half SCAFFOLD's traffic.

Liang et al., Variance Reduced Local SGD with Lower Communication Complexity, 2019.

    y <- y - gamma (g_i(y) - Delta_i),  S times from y = x             clients in A_k
    x' = 1/|A_k| sum_{A_k} y_i                                         server
    Delta_i <- Delta_i + (x' - y_i) / (S gamma)                        client, when x' arrives

A client learns x' with its next download, and until then keeps y_i and S gamma. With everybody in every round this
is SCAFFOLD (option II, eta_g = 1) with Delta_i = c_i - c.

Departures. The paper assumes all clients in every round. Here Delta_i changes by the rounds in which client i's
upload arrived, with the mean of just that round: the server keeps it, and sends it beside x as soon as an asked
client has missed a round since its last. A lost upload takes Delta_i, y_i and S gamma back. So sum_i Delta_i = 0,
what is still to be added included, whoever takes part. This needs equal S within a round. Otherwise each client
divides by its own S; while these stay the same from round to round, sum_i S_i Delta_i = 0 instead, and what is
minimised is sum_i S_i F_i. The record is told, for which a client uploads its S. No momentum (the authors' program
averages it) and no warm-up. BatchNorm statistics are averaged. `eval_model`: as in SCAFFOLD.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import Download, Federation, Kind, Kinds, Model, Pick, Solver, State, Turn, kinds_like, model_of
from amity.learn.task import Task
from amity.learn.train import plain_sgd, steps, train
from amity.learn.vectors import weighted_mean

_UNEQUAL = "silos took unequal numbers of steps in the last round: vrlsgd then weights their losses by these numbers"


@dataclass(frozen=True)
class VRLSGD:
    eval_model: Literal["local", "global"] = option("local", "what is evaluated: y_i, or x", symbol="y_i, x")

    paired: ClassVar[tuple[str, ...]] = ("delta", "sent", "length")
    averaged: ClassVar[tuple[str, ...]] = ("params", "buffers")
    solver: ClassVar[Solver] = Solver("sgd", 5e-3, batch=32)
    optimizers: ClassVar[tuple[str, ...]] = ("sgd",)

    def __post_init__(self) -> None:
        check(self)

    @property
    def evaluates(self) -> Literal["held", "server"]:
        return "held" if self.eval_model == "local" else "server"

    def accept(self, solver: Solver) -> None:
        plain_sgd("vrlsgd", solver)

    def init_server(self, task: Task, fed: Federation) -> State:
        first = task.initial(fed)
        return {
            **first,
            "means": first["params"].expand(fed.clients, -1),  # [m, d] x' of each client's last round
            "last": torch.zeros(fed.clients, dtype=torch.int64),  # that round; 0: never heard
            "unequal": torch.tensor(False),  # S in the last round
        }

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        first = task.initial(fed)
        return {
            **(first if self.eval_model == "local" else {}),
            "delta": torch.zeros_like(first["params"]),
            "sent": first["params"],  # y_i of the last round that counted
            "length": torch.zeros((), dtype=torch.float64),  # its S gamma; 0: nothing to be added to Delta_i
        }

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        last = server["last"][who]
        missed = (last > 0) & (last < server["last"].max())  # for the others x' is x
        each = {"mean": Pick(server["means"], who[:, None])} if missed.any() else {}
        return Download(model_of(server), {**each}, notes=(_UNEQUAL,) if server["unequal"] else ())

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        mean = down["mean"][0] if "mean" in down else down["params"]
        missing = (mean - client["sent"]) / client["length"]
        delta = torch.where(client["length"] > 0, client["delta"] + missing, client["delta"])
        correction = -delta
        model = train(task, model_of(down), turn, terms=[lambda params: correction])
        count = steps(task, turn)
        length = count * turn.solver.rate_at(turn.round)
        state = {
            **(model if self.eval_model == "local" else {}),
            "delta": delta,
            "sent": model["params"],
            "length": torch.tensor(length, dtype=torch.float64),
        }
        return state, {**model, "steps": torch.tensor(count)}

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return {**kinds_like(task.initial(fed)), "steps": Kind((), torch.int64, least=0)}

    def gradients(self, epochs: int, batches: int) -> int:
        return epochs * batches

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        mean = weighted_mean(model_of(uploads), torch.ones(len(who)))
        means = mean["params"].expand(len(server["means"]), -1)  # one row, shown m times
        if len(who) < len(means):
            means = server["means"].index_copy(0, who.to(means.device), means[: len(who)])
        unequal = uploads["steps"].min() != uploads["steps"].max()
        return {**server, **mean, "means": means, "last": server["last"].index_fill(0, who, round), "unequal": unequal}

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        if self.eval_model == "local":
            return model_of(client)
        assert down is not None  # a server method is always given the current download
        return model_of(down)
