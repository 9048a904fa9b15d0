"""The clients' side of a simulation: their data and states, their turns and their evaluation, on threads.

Each thread computes with one intra-op thread, in its own workspace, from keyed random streams: what comes out does
not depend on how many there are. A crew may host all clients of a federation or some of them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from types import TracebackType
from typing import Literal, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor

from amity.config import Participation
from amity.contract import (
    Choosing,
    Data,
    Download,
    Federation,
    InputError,
    Method,
    Model,
    Relational,
    Score,
    Silo,
    Solver,
    State,
    Turn,
)
from amity.engines.allocator import keep_freed_memory
from amity.engines.participation import epochs_of
from amity.streams import seed_of
from amity.task import Task

S = TypeVar("S")
T = TypeVar("T")


class Stopped(Exception):
    """Raised inside a worker after the run was interrupted."""


class Plan(NamedTuple):
    """What everybody in a federation has agreed on."""

    method: Method
    task: Task
    fed: Federation
    solver: Solver
    rule: Participation


class Sent:
    """A download on its way to these clients. Called with one, it gives what that client gets to see."""

    def __init__(self, who: Sequence[int], down: Download) -> None:
        self.at = {client: position for position, client in enumerate(who)}
        self.down = down

    def __call__(self, client: int) -> State:
        return self.down.to(self.at[client])


class Exchange(Protocol):
    """How a client meets the server in one round."""

    @property
    def sent(self) -> Sent:
        """What the server sends to all that are asked."""

    def receive(self, client: int) -> State:
        """What the server sends it."""

    def deliver(self, client: int, state: State, upload: State) -> State:
        """Take its upload; give back the state it goes on with."""


class Clients(Protocol):
    """Whoever hosts the clients: the crew below, in this process, or workers elsewhere."""

    @property
    def executed(self) -> Literal["loop", "stacked"]: ...

    def notes(self) -> list[str]: ...

    def begin(self, states: Mapping[int, State] | None = None) -> None: ...

    def states(self) -> Sequence[State]: ...

    def train(
        self, round: int, asked: Sequence[int], lost: frozenset[int], exchange: Exchange
    ) -> Iterator[tuple[int, str | None]]: ...

    def evaluate(self, round: int, receive: Sent | None) -> Iterator[tuple[int, Score]]: ...

    def relations(self) -> Tensor | None: ...

    def holds(self) -> list[str] | None: ...


class Crew:
    """Clients and the threads that work for them. Used as a context: leaving it ends the threads."""

    executed: Literal["loop", "stacked"] = "loop"  # how the last turns were taken

    def __init__(self, plan: Plan, silos: Mapping[int, Silo], workers: int | None = None) -> None:
        self.plan = plan
        prepare = plan.task.prepare
        self._names = {client: silo.name for client, silo in silos.items()}
        self._data = {c: Data(prepare(s.train), None if s.val is None else prepare(s.val)) for c, s in silos.items()}
        self._tests = {client: prepare(silo.test) for client, silo in silos.items()}
        self._units = {client: silo.scale.unit for client, silo in silos.items()}
        self._states: dict[int, State] = {}
        self._scored: dict[int, tuple[State, Score]] = {}
        self._notes: list[str] = []
        self._stop = threading.Event()
        keep_freed_memory()
        count = workers or os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(count, "amity", initializer=torch.set_num_threads, initargs=(1,))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._stop.set()  # a turn ends at its next epoch
        self._pool.shutdown(wait=True, cancel_futures=True)

    def begin(self, states: Mapping[int, State] | None = None) -> None:
        """Start from the method's first states, or from these."""
        method, task, fed, *_ = self.plan
        if states is None:
            states = {client: method.init_client(task, fed, client) for client in self._names}
        self._states = dict(states)

    def states(self) -> list[State]:
        """Every client's state as it is now; later rounds do not change what is returned."""
        return [self._states[client] for client in sorted(self._states)]

    def say(self, note: str) -> None:
        """Leave word for the record."""
        self._notes.append(note)

    def notes(self) -> list[str]:
        """What was left for the record since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def train(
        self, round: int, asked: Sequence[int], lost: frozenset[int], exchange: Exchange
    ) -> Iterator[tuple[int, str | None]]:
        """Let every asked client take its turn; who is done, and why its upload was refused if it was.

        A client whose upload is refused goes on from its old state, one whose upload is lost keeps its old `paired`
        keys. States change when all are done.
        """
        after = dict(self._states)
        for client, (state, refused) in self._turns(round, asked, exchange):
            if refused is None:
                old = self._states[client]
                paired = self.plan.method.paired if client in lost else ()
                after[client] = {**state, **{key: old[key] for key in paired}}
            yield client, refused
        self._states = after

    def evaluate(self, round: int, receive: Callable[[int], State] | None) -> Iterator[tuple[int, Score]]:
        """Every client's personal model after this round on its own test data.

        `receive`: what the server would send in the next round, for methods that evaluate it.
        """
        scores = {}
        for client, score in self._scores(round, receive):
            scores[client] = score
            yield client, score
        if receive is None:
            self._scored = {client: (self._states[client], scores[client]) for client in scores}

    def personal(self, client: int, round: int, receive: Callable[[int], State] | None) -> Model:
        """A client's personal model after this round."""
        received = None if receive is None else receive(client)
        turn = self._turn(client, round + 1)
        return self.plan.method.personal(self.plan.task, self._states[client], received, turn)

    def personals(self, round: int, receive: Callable[[int], State] | None) -> list[Model]:
        return list(self._pool.map(lambda client: self.personal(client, round, receive), sorted(self._states)))

    def relations(self) -> Tensor | None:
        """The weights that clients themselves give each other, where the method has such.  # [m, m]"""
        method = self.plan.method
        return torch.stack([method.relations(s) for s in self.states()]) if isinstance(method, Relational) else None

    def holds(self) -> list[str] | None:
        """Which model each client has chosen to hold, where the method lets it choose."""
        method = self.plan.method
        return [method.holds(state) for state in self.states()] if isinstance(method, Choosing) else None

    def _turns(
        self, round: int, asked: Sequence[int], exchange: Exchange
    ) -> Iterator[tuple[int, tuple[State, str | None]]]:
        return self._each(lambda client: self._take(client, round, exchange), asked)

    def _take(self, client: int, round: int, exchange: Exchange) -> tuple[State, str | None]:
        """One client's turn: its new state, and why its upload cannot be used."""
        with self._blame(client, round):
            state, upload = self.plan.method.local(
                self.plan.task, self._states[client], exchange.receive(client), self._turn(client, round)
            )
            refused = _unusable(upload)
            return (exchange.deliver(client, state, upload), None) if refused is None else ({}, refused)

    def _scores(self, round: int, receive: Callable[[int], State] | None) -> Iterator[tuple[int, Score]]:
        return self._each(lambda client: self._score(client, round, receive), sorted(self._states))

    def _score(self, client: int, round: int, receive: Callable[[int], State] | None) -> Score:
        last = self._known(client, receive)
        if last is not None:
            return last
        with self._blame(client, round):
            model = self.personal(client, round, receive)
            return self.plan.task.measure(model, self._data[client], self._tests[client], self._units[client])

    def _known(self, client: int, receive: Callable[[int], State] | None) -> Score | None:
        """A client whose state did not change holds the model that was evaluated before."""
        last = self._scored.get(client)
        return last[1] if receive is None and last is not None and last[0] is self._states[client] else None

    def _each(self, work: Callable[[S], T], items: Sequence[S]) -> Iterator[tuple[S, T]]:
        futures = {self._pool.submit(work, item): item for item in items}
        for future in as_completed(futures):
            yield futures.pop(future), future.result()

    def _turn(self, client: int, round: int) -> Turn:
        _, _, fed, solver, rule = self.plan
        key = int(fed.keys[client])

        def seed(role: str, epoch: int) -> int:
            if self._stop.is_set():
                raise Stopped
            return seed_of(fed.seed, role, key, round, epoch)

        return Turn(round, epochs_of(rule, fed, client, round), solver, self._data[client], seed)

    @contextmanager
    def _blame(self, client: int, round: int) -> Iterator[None]:
        """Add silo, round and method to what went wrong inside."""
        where = f"silo {self._names[client]}, round {round}, {type(self.plan.method).__name__}"
        try:
            yield
        except Stopped:
            raise
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        except Exception as error:
            error.add_note(where)
            raise


def _unusable(upload: State) -> str | None:
    for key, value in upload.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            return not_finite(key)
    return None


def not_finite(key: str) -> str:
    return f"upload refused: {key} not finite"
