"""A crew whose clients advance together, where their model and method allow it.

The clients asked are dealt into stacks that depend on who they are and on nothing else, so that the number of threads
changes no bit. Where code of the method cannot be lifted, because it branches on a client's numbers, say, the stack
takes its turns one by one as in any crew, and from the next round on all do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, TypeVar

import torch

from amity.contract import Model, Score, Silo, State, Turn
from amity.engines.crew import Crew, Exchange, Plan, Stopped, not_finite
from amity.engines.dense import Dense, dense_of
from amity.engines.lift import Kind, Stacks, Uneven
from amity.task import Task

Engine = Literal["auto", "loop", "stacked"]

T = TypeVar("T")

LARGEST = 200_000
"""Parameters of the largest model that `auto` stacks: beyond it products are so large that stacking gains little."""

ROWS = 64
"""Clients in a stack: enough to spread the cost of a call, few enough for several threads and the cache."""


def crew_of(engine: Engine, plan: Plan, silos: Mapping[int, Silo], workers: int | None = None) -> Crew:
    """The crew that an engine means for this plan; `auto` stacks two or more clients with a small dense model."""
    if engine == "loop" or (engine == "auto" and (len(silos) < 2 or plan.task.size > LARGEST)):
        return Crew(plan, silos, workers)
    dense = dense_of(plan.task)
    if isinstance(dense, Dense):
        return StackedCrew(plan, silos, workers, dense, aloud=engine == "stacked")
    return Crew(plan, silos, workers) if engine == "auto" else _Refused(plan, silos, workers, f"the model: {dense}")


class _Refused(Crew):
    """A crew that was asked to advance together and cannot."""

    def __init__(self, plan: Plan, silos: Mapping[int, Silo], workers: int | None, reason: str) -> None:
        super().__init__(plan, silos, workers)
        self._reason = reason

    @property
    def notes(self) -> tuple[str, ...]:
        return (_note(self._reason),)


def _note(reason: str) -> str:
    return f"engine = stacked is not possible, clients take their turns one by one: {reason}"


class StackedCrew(Crew):
    def __init__(
        self, plan: Plan, silos: Mapping[int, Silo], workers: int | None, dense: Dense, *, aloud: bool
    ) -> None:
        super().__init__(plan, silos, workers)
        self._stacks = Stacks(plan.task, dense, self._data, self._tests)
        self._aloud = aloud
        self._lifts = {"local": _Lift(), "personal": _Lift()}

    @property
    def notes(self) -> tuple[str, ...]:
        reason = self._lifts["local"].failed
        return () if reason is None or not self._aloud else (_note(f"{type(self.plan.method).__name__}: {reason}"),)

    def personals(self, round: int, receive: Callable[[int], State] | None) -> list[Model]:
        def apart(clients: Sequence[int], models: Model) -> list[Model]:
            return [_own(row) for row in _rows(models, len(clients))]

        work = self._work("personal", receive, apart, lambda client: self.personal(client, round, receive))
        return [
            model for _, model in sorted(self._all(work, sorted(self._states), round + 1), key=lambda pair: pair[0])
        ]

    def _turns(
        self, round: int, asked: Sequence[int], exchange: Exchange
    ) -> Iterator[tuple[int, tuple[State, str | None]]]:
        def deliver(clients: Sequence[int], out: tuple[State, State]) -> list[tuple[State, str | None]]:
            return _delivered(clients, *out, exchange)

        work = self._work("local", exchange.receive, deliver, lambda client: self._take(client, round, exchange))
        yield from self._all(work, asked, round)
        self.executed = "stacked" if self._lifts["local"].failed is None else "loop"

    def _scores(self, round: int, receive: Callable[[int], State] | None) -> Iterator[tuple[int, Score]]:
        known = {client: self._known(client, receive) for client in sorted(self._states)}
        yield from ((client, score) for client, score in known.items() if score is not None)
        changed = [client for client, score in known.items() if score is None]
        work = self._work("personal", receive, self._stacks.scores, lambda client: self._score(client, round, receive))
        yield from self._all(work, changed, round + 1)

    def _all(
        self, work: Callable[[dict[int, Turn]], list[tuple[int, T]]], clients: Sequence[int], round: int
    ) -> Iterator[tuple[int, T]]:
        for lift in self._lifts.values():
            lift.settle()
        for _, done in self._each(work, self._deal({client: self._turn(client, round) for client in clients})):
            yield from done

    def _deal(self, turns: Mapping[int, Turn]) -> list[dict[int, Turn]]:
        """Stacks of clients with equal epochs, with or without validation data, largest first."""

        def kind(client: int) -> tuple[int, bool]:
            return turns[client].epochs, turns[client].data.val is None

        ordered = sorted(turns, key=lambda client: (*kind(client), -len(turns[client].data.train.y), client))
        stacks = []
        for _, group in groupby(ordered, kind):
            members = list(group)
            size = -(-len(members) // -(-len(members) // ROWS))  # as equal as can be
            stacks += [members[start : start + size] for start in range(0, len(members), size)]
        return [{client: turns[client] for client in stack} for stack in stacks]

    def _work(
        self,
        name: Literal["local", "personal"],
        receive: Callable[[int], State] | None,
        use: Callable[[Sequence[int], Any], Sequence[T]],
        alone: Callable[[int], T],
    ) -> Callable[[dict[int, Turn]], list[tuple[int, T]]]:
        """What to do with a stack: use what the method's function gives for all, or ask the clients one by one.

        Whatever goes wrong, they are asked one by one: if it is not about stacking, it is said there whose it was.
        """
        function: Callable[[Task, State, Any, Turn], Any] = getattr(self.plan.method, name)
        lift = self._lifts[name]

        def run(clients: list[int], turns: Mapping[int, Turn], downs: Mapping[int, State | None]) -> Any:
            return self._stacks.run(
                function,
                clients,
                [self._states[client] for client in clients],
                [downs[client] for client in clients],
                [turns[client] for client in clients],
            )

        def work(turns: dict[int, Turn]) -> list[tuple[int, T]]:
            downs = {client: None if receive is None else receive(client) for client in turns}
            even = lift.even
            while lift.lifts:
                parts = self._split(turns, even)
                try:
                    out = [run(part, turns, downs) for part in parts]
                except Uneven as error:
                    assert error.kind not in even, f"clients were made to agree in {error.kind}"
                    even = even | {error.kind}
                    lift.wanted.add(error.kind)
                except Stopped:
                    raise
                except Exception as error:
                    lift.failed = str(error).partition("\n")[0] or type(error).__name__
                    break
                else:
                    used = [zip(part, use(part, result), strict=True) for part, result in zip(parts, out, strict=True)]
                    return [pair for pairs in used for pair in pairs]
            return [(client, alone(client)) for client in turns]

        return work

    def _split(self, turns: Mapping[int, Turn], even: frozenset[Kind]) -> list[list[int]]:
        """The clients of a stack by what they must agree in; their order stays."""
        parts: dict[tuple[int | None, ...], list[int]] = {}
        for client in turns:
            key = tuple(self._stacks.size(client, kind, self.plan.solver.batch) for kind in sorted(even))
            parts.setdefault(key, []).append(client)
        return list(parts.values())


class _Lift:
    """What is known about a method's function. Changes only between rounds, for all threads at once."""

    def __init__(self) -> None:
        self.even: frozenset[Kind] = frozenset()  # what the clients of a stack must agree in
        self.wanted: set[Kind] = set()
        self.lifts = True
        self.failed: str | None = None  # why it cannot be lifted

    def settle(self) -> None:
        self.even |= self.wanted
        self.lifts = self.failed is None


def _delivered(
    clients: Sequence[int], states: State, uploads: State, exchange: Exchange
) -> list[tuple[State, str | None]]:
    """Hand over each upload that is finite."""
    refused: dict[int, str] = {}
    for key, value in uploads.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            for at in (~torch.isfinite(value).flatten(1).all(1)).nonzero()[:, 0].tolist():
                refused.setdefault(at, not_finite(key))
    count = len(clients)
    turns = zip(clients, _rows(states, count), _rows(uploads, count), strict=True)
    return [
        ({}, refused[at]) if at in refused else (exchange.deliver(client, _own(state), upload), None)
        for at, (client, state, upload) in enumerate(turns)
    ]


def _rows(stacked: State, count: int) -> list[State]:
    columns = {key: value.unbind(0) for key, value in stacked.items()}
    return [{key: column[at] for key, column in columns.items()} for at in range(count)]


def _own(row: State) -> State:
    """A client's own tensors, which do not keep those of the others alive."""
    return {key: value.clone() for key, value in row.items()}
