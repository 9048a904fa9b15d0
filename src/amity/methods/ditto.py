"""Ditto: personal models, each held near a global model that is trained as if they did not exist.

Li et al., Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021.

    w_i = Local(w^{k-1}, F_i)                                                   clients in A_k
    v_i ~ argmin F_i(v) + (lambda/2) |v - w^{k-1}|^2                            clients in A_k, started at v_i
    w^k = w^{k-1} + mean of (w_i - w^{k-1})                                     server, over A_k

The centre is the received w^{k-1}, never the freshly trained w_i. A client keeps v_i and is evaluated with it;
`eval_model = global` evaluates w^k (Ditto-G) and changes nothing else.

Departures. The authors' program takes the same batch for both steps and alternates them; here the personal model
makes its epochs on a stream of its own, so that the global path is FedAvg's to the last bit. Their choice of
lambda per client on validation data is left out. BatchNorm statistics of v_i stay at the client.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import Download, Federation, InputError, Kinds, Model, Solver, State, Turn, model_of
from amity.learn.task import Task
from amity.learn.train import proximal, train
from amity.methods.fedavg import FedAvg


@dataclass(frozen=True)
class Ditto:
    attraction: float = option(1.0, "pull towards the global model", symbol="lambda", at_least=0, search="0.01:10:log")
    personal_epochs: int | Literal["same"] = option("same", "epochs of the personal model", symbol="s", at_least=1)
    personal_lr: float | Literal["same"] = option(
        "same", "rate of the personal model; decays as lr does", symbol="eta_p", above=0
    )
    eval_model: Literal["personal", "global"] = option("personal", "which model is evaluated and kept for use")
    weighting: Literal["samples", "uniform"] = option("uniform", "weights of the mean: n_i, or all equal")

    paired: ClassVar[tuple[str, ...]] = ()
    averaged: ClassVar[tuple[str, ...]] = ("params", "buffers")
    solver: ClassVar[Solver] = Solver("sgd", 0.05, batch=16)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")

    def __post_init__(self) -> None:
        check(self)

    def accept(self, solver: Solver) -> None:
        rate = solver.rate if self.personal_lr == "same" else self.personal_lr
        if solver.optimizer == "sgd" and rate * self.attraction >= 2:
            raise InputError(
                f"ditto needs rate x attraction < 2 with sgd, got {rate:g} x {self.attraction:g}: "
                f"the pull alone would diverge, set personal_lr below {2 / self.attraction:g}"
            )

    @property
    def evaluates(self) -> Literal["held", "server"]:
        return "held" if self.eval_model == "personal" else "server"

    @property
    def _average(self) -> FedAvg:
        return FedAvg(self.weighting)

    def init_server(self, task: Task, fed: Federation) -> State:
        return self._average.init_server(task, fed)

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return task.initial(fed)

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return self._average.download(server, who, round, rng)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        copy = train(task, down, turn)
        if self.personal_epochs != "same":
            turn = turn._replace(epochs=self.personal_epochs)
        if self.personal_lr != "same":
            turn = turn._replace(solver=turn.solver._replace(rate=self.personal_lr))
        terms = [proximal(self.attraction, down["params"])] if self.attraction else []
        return train(task, client, turn, terms=terms, role="personal"), copy

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return self._average.upload_kinds(task, fed, down)

    def gradients(self, epochs: int, batches: int) -> int:
        own = epochs if self.personal_epochs == "same" else self.personal_epochs
        return (epochs + own) * batches

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return self._average.aggregate(server, who, uploads, round)

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return model_of(client) if down is None else down
