"""L2GD: personal models held near their mean, by coins that choose between local and averaging steps.

Hanzely and Richtarik, Federated Learning of a Mixture of Global and Local Models, 2020.

    min (1/m) sum_i f_i(x_i) + lambda/(2m) sum_i |x_i - xbar|^2
    coin 0:  x_i <- x_i - eta/(1-p) grad f_i(x_i)               every client
    coin 1:  x_i <- (1-q) x_i + q xbar,  q = eta lambda / p     xbar unchanged, so a run of these needs one message

The coins, 1 with probability p, are shared by all. eta is the solver's rate (a/m in the paper; at most
1/(2 max(L/(1-p), lambda/p)) by its theorem). A round is a run of coins 1 and the run of coins 0 after it: those
asked mix with the mean of what they last uploaded, descend, and upload, which is one message each way per change
from 0 to 1. The first round has nothing to mix. p = lambda/(L + lambda) sends least; the default is that for L = 1.

Departures. Gradients are of mini-batches (the paper's L2SGD without variance reduction). A local step is E batches,
the run's epochs, so that local work compares with other methods'; E = 1 is the paper, E > 1 acts like lambda/E. With
partial participation xbar is the mean over those asked, and only they move; for that the server keeps every client's
last upload. With p = 0 and lambda = 0 no coin ends a round: it is E epochs, without messages. Buffers stay at the
client.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.contract import Download, Federation, InputError, Kind, Kinds, Model, Solver, State, Turn, model_of
from amity.learn.rows import replace_rows
from amity.learn.task import Task
from amity.learn.train import batches, descent, plain_sgd
from amity.learn.vectors import mix
from amity.methods._mixing import first_models


@dataclass(frozen=True)
class L2GD:
    attraction: float = option(
        0.1, "pull towards the mean of the models", symbol="lambda", at_least=0, search="0.01:10:log"
    )
    p: float = option(0.1, "probability of an averaging step", symbol="p", at_least=0, below=1, search="0.05:0.9")
    init: Literal["shared", "independent"] = option("shared", "one first model for all, or each its own")

    paired: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[Solver] = Solver("sgd", 0.1)
    optimizers: ClassVar[tuple[str, ...]] = ("sgd",)
    other_use: ClassVar[str] = "leaves it to coins how many gradients it takes"

    def __post_init__(self) -> None:
        check(self)
        if self.p == 0 and self.attraction > 0:
            raise InputError("l2gd needs p to be > 0 to act on attraction > 0, got 0.0: try p=0.1 (the default)")

    def accept(self, solver: Solver) -> None:
        plain_sgd("l2gd", solver)
        if self._share(solver.rate) > 1:
            raise InputError(
                f"l2gd needs lr * attraction / p to be <= 1, got {self._share(solver.rate):g}: "
                f"set lr to {self.p / self.attraction:.3g} or less, a smaller attraction, or a larger p"
            )

    def init_server(self, task: Task, fed: Federation) -> State:
        return {"params": first_models(task, fed, self.init)["params"]}  # [m, d] as last uploaded

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return task.initial(fed, client if self.init == "independent" else None)

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        if self.p == 0:
            return Download({}, {})
        luck = torch.rand(2, generator=rng("coin", 0), dtype=torch.float64).tolist()
        averagings, steps = _run_of(math.log(self.p), luck[0]), _run_of(math.log1p(-self.p), luck[1])
        if round == 1:
            return Download({"coins": torch.tensor([0, steps])}, {})
        equal = torch.full((1, len(who)), 1 / len(who), dtype=torch.float64)
        mean = mix(equal, server["params"], who)[0]
        return Download({"coins": torch.tensor([averagings, steps]), "params": mean}, {})

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        rate = turn.solver.rate_at(turn.round)
        start, work = model_of(client), batches(task, turn)
        if self.p:
            averagings, steps = down["coins"].tolist()
            count = steps * turn.epochs
            work = islice(batches(task, turn._replace(epochs=count)), count)  # epoch after epoch
            if averagings:
                share = 1 - (1 - self._share(rate)) ** averagings
                start["params"] = torch.lerp(start["params"], down["params"], share)
        model = task.working(start)
        step = descent(turn, model["params"], rate / (1 - self.p))
        for batch, rng in work:
            _, gradient = task.gradient(model, batch, rng)
            step(gradient)
        kept = task.release(model)
        return kept, {"params": kept["params"]} if self.p else {}

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds:
        return {"params": Kind((task.size,), task.dtype)} if self.p else {}

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return {"params": replace_rows(server["params"], who, uploads["params"])} if uploads else server

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return model_of(client)

    def _share(self, rate: float) -> float:
        """q: how far one averaging step goes towards the mean."""
        return rate * self.attraction / self.p if self.attraction else 0.0


def _run_of(log_chance: float, luck: float) -> int:
    """How many coins a run lasts that goes on with this chance after each, from a uniform number: at least 1."""
    return 1 + math.floor(math.log1p(-luck) / log_chance)
