"""What every method around another one passes on as it is. A wrapper says only what it changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Generator, Tensor

from amity.contract import (
    Download,
    Federation,
    Grows,
    Kinds,
    Method,
    Solver,
    State,
    Turn,
    averaged_keys,
    declared,
    measured_keys,
)
from amity.learn.task import Task


@dataclass(frozen=True)
class Wrapper:
    """A method that does what another does, but for what a subclass overrides."""

    base: Method

    @property
    def paired(self) -> tuple[str, ...]:
        return self.base.paired

    @property
    def averaged(self) -> tuple[str, ...]:
        return averaged_keys(self.base)

    @property
    def measured(self) -> tuple[str, ...]:
        return measured_keys(self.base)

    @property
    def solver(self) -> Solver:
        return self.base.solver

    @property
    def optimizers(self) -> tuple[str, ...]:
        return self.base.optimizers

    def init_server(self, task: Task, fed: Federation) -> State:
        return self.base.init_server(task, fed)

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return self.base.init_client(task, fed, client)

    def download(self, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator]) -> Download:
        return self.base.download(server, who, round, rng)

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        return self.base.local(task, client, down, turn)

    def upload_kinds(self, task: Task, fed: Federation, down: Download) -> Kinds | None:
        return declared(self.base, task, fed, down)

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return self.base.aggregate(server, who, uploads, round)

    def grow_server(self, task: Task, before: Federation, after: Federation, server: State) -> State:
        return self.base.grow_server(task, before, after, server) if isinstance(self.base, Grows) else server

    def grow_client(self, task: Task, before: Federation, after: Federation, client: int, state: State) -> State:
        return self.base.grow_client(task, before, after, client, state) if isinstance(self.base, Grows) else state
