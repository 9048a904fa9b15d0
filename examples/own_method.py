"""Your own method in one class: each client starts from the mean of its own model and everybody's mean.

A method is six pure functions of explicit state. What crosses the wire is what `download` and `local` return;
`upload_kinds` says what an upload must be.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

import amity
from amity.contract import Kinds, kinds_like, model_of
from amity.learn.train import train
from amity.learn.vectors import weighted_mean


@dataclass(frozen=True)
class Halfway:
    share: float = 0.5  # of the others' mean in a client's start

    paired: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[amity.Solver] = amity.Solver("adam", 1e-3)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")

    def init_server(self, task: amity.Task, fed: amity.Federation) -> amity.State:
        return {**task.initial(fed), "sizes": fed.sizes}

    def init_client(self, task: amity.Task, fed: amity.Federation, client: int) -> amity.State:
        return task.initial(fed)

    def download(
        self, server: amity.State, who: Tensor, round: int, rng: Callable[[str, int], Generator]
    ) -> amity.Download:
        return amity.Download(model_of(server), {})

    def local(
        self, task: amity.Task, client: amity.State, down: amity.State, turn: amity.Turn
    ) -> tuple[amity.State, amity.State]:
        start = {**down, "params": torch.lerp(client["params"], down["params"], self.share)}
        model = train(task, start, turn)
        return model, model

    def upload_kinds(self, task: amity.Task, fed: amity.Federation, down: amity.Download) -> Kinds:
        return kinds_like(task.initial(fed))  # a model; the server admits nothing else

    def aggregate(self, server: amity.State, who: Tensor, uploads: amity.State, round: int) -> amity.State:
        return {**server, **weighted_mean(uploads, server["sizes"][who])}

    def personal(
        self, task: amity.Task, client: amity.State, down: amity.State | None, turn: amity.Turn
    ) -> amity.Model:
        return model_of(client)


silos = amity.deal(amity.load("digits"), "practical", clients=20, seed=0)
for name, method in {"alone": Halfway(0.0), "halfway": Halfway(0.5), "together": Halfway(1.0)}.items():
    result = amity.run(amity.Run(rounds=15), silos, method=method)
    print(f"{name:9} {result.best:.1f} %")
