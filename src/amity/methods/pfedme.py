"""pFedMe: a global model of Moreau envelopes; a client's personal model is the proximal point.

Dinh et al., Personalized Federated Learning with Moreau Envelopes, NeurIPS 2020.

    f_i's envelope at w:  min over theta of F_i(theta) + (lambda/2) |theta - w|^2,  gradient lambda (w - theta)

    w_i <- w, theta_i <- w; R times, each on one batch b:                                       clients in A_k
        K times: theta_i <- theta_i - eta_p (grad F_i(theta_i; b) + lambda (theta_i - w_i))     all on the same b
        w_i <- w_i - eta lambda (w_i - theta_i)
    w <- (1 - beta) w + beta mean of w_i                                                        server, over A_k

eta_p is the solver's rate: the only one that meets a gradient of the loss. eta is an option and decays as lr does.
A client keeps theta_i and is evaluated with it. R counts steps, not epochs: it is `steps` for every epoch of the
turn, so that a client with more epochs does more work; with 5 epochs it is the authors' 20. Batches come from the
epochs' stream, which goes on for as long as steps are left.

Departures. In the paper all clients train and the server picks some uploads; here only those asked train. The
authors' program weights the mean by samples (`weighting`), adds a weight decay to theta, and by an alias evaluates
w_i in place of theta_i; none of this is done here. Only theta_i is ever run: its BatchNorm statistics stay at the
client, and those of w are the mean of what the clients saw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import Download, Federation, InputError, Kinds, Model, Solver, State, Turn, model_of
from amity.learn.task import Task
from amity.learn.train import batches, descent, plain_sgd
from amity.methods.fedavg import FedAvg


@dataclass(frozen=True)
class PFedMe:
    attraction: float = option(
        15.0, "pull of the personal towards the global model", symbol="lambda", above=0, search="1:100:log"
    )
    steps: int = option(4, "steps per local epoch, each on one batch", symbol="R/E", at_least=1)
    inner_steps: int = option(5, "gradient steps of the personal model on each batch", symbol="K", at_least=1)
    eta: float = option(
        0.005, "rate of the global model's copy; decays as lr does", symbol="eta", above=0, search="5e-4:0.1:log"
    )
    beta: float = option(1.0, "how far the server moves to the mean; may exceed 1", symbol="beta", at_least=0)
    weighting: Literal["samples", "uniform"] = option("uniform", "weights of the mean: n_i, or all equal")

    paired: ClassVar[tuple[str, ...]] = ()
    averaged: ClassVar[tuple[str, ...]] = ("params", "buffers")
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[Solver] = Solver("sgd", 0.09, batch=20)
    optimizers: ClassVar[tuple[str, ...]] = ("sgd",)

    def __post_init__(self) -> None:
        check(self)

    def accept(self, solver: Solver) -> None:
        plain_sgd("pfedme", solver)
        for name, rate in (("lr", solver.rate), ("eta", self.eta)):
            if rate * self.attraction >= 2:
                raise InputError(
                    f"pfedme needs {name} x attraction < 2, got {rate:g} x {self.attraction:g}: "
                    f"its steps would diverge, set {name} below {2 / self.attraction:g}"
                )

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
        pace = self.eta * turn.solver.decay ** (turn.round - 1) * self.attraction
        copy = down["params"]  # w_i
        model = task.working({**model_of(client), "params": copy})
        theta = model["params"]
        step = descent(turn, theta)
        count = self.steps * turn.epochs
        for batch, rng in islice(batches(task, turn._replace(epochs=count)), count):
            for _ in range(self.inner_steps):
                _, gradient = task.gradient(model, batch, rng)
                step(gradient.add_(theta - copy, alpha=self.attraction))
            copy = copy - pace * (copy - theta)
        kept = task.release(model)
        return kept, {**kept, "params": copy}

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return self._average.upload_kinds(task, fed, down)

    def gradients(self, epochs: int, batches: int) -> int:
        return self.inner_steps * self.steps * epochs if batches else 0

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        mean = self._average.aggregate(server, who, uploads, round)
        return {**mean, "params": torch.lerp(server["params"], mean["params"], self.beta)}

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return model_of(client)
