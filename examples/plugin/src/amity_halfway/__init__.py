"""Halfway: a method for Amity, in a package of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

import amity
from amity.config.options import check, option
from amity.contract import Kinds, kinds_like, model_of
from amity.learn.train import train
from amity.learn.vectors import weighted_mean


@dataclass(frozen=True)
class Halfway:
    """Each silo starts halfway between its own model and the mean of all."""

    share: float = option(0.5, "of the mean in a silo's start", at_least=0, at_most=1)

    paired: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[amity.Solver] = amity.Solver("adam", 1e-3)
    optimizers: ClassVar[tuple[str, ...]] = ("adam", "sgd")

    def __post_init__(self) -> None:
        check(self)

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
