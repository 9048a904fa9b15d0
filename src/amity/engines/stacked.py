"""A crew whose clients advance together, where their model and method allow it.

The clients asked are dealt into stacks that depend on who they are and on nothing else, so that the number of threads
changes no bit. Where code of the method cannot be lifted, because it branches on a client's numbers, say, the stack
takes its turns one by one as in any crew, and from the next round on all do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from typing import Any, Literal, TypeVar

import torch

from amity.contract import Model, Score, Silo, State, Turn, nbytes
from amity.engines.crew import Crew, Exchange, Plan, Stopped, not_finite
from amity.engines.dense import Dense, dense_of
from amity.engines.lift import Kind, Stacks, Uneven
from amity.task import Task

Engine = Literal["auto", "loop", "stacked"]

T = TypeVar("T")

LARGEST = 200_000
"""Parameters of the largest model that `auto` stacks. Measured gains in processor time: 15 to 20 times at 5,000
parameters, 2 to 3 at 50,000, 1.7 at 160,000, 1.2 at 400,000."""

ROWS = 64
"""Clients in a stack: enough to spread the cost of a call."""

NUMBERS = 400_000
"""Parameters in a stack of larger models, but 8 clients at least: few enough for the cache and for several threads."""

BYTES = 1 << 27
"""Size of the states in a stack, where clients keep more than a model."""


def crew_of(engine: Engine, plan: Plan, silos: Mapping[int, Silo], workers: int | None = None) -> Crew:
    """The crew that an engine means for this plan; `auto` stacks two or more clients with a small dense model."""
    if engine == "loop" or (engine == "auto" and (len(silos) < 2 or plan.task.size > LARGEST)):
        return Crew(plan, silos, workers)
    dense = dense_of(plan.task)
    if isinstance(dense, Dense):
        return StackedCrew(plan, silos, workers, dense, aloud=engine == "stacked")
    crew = Crew(plan, silos, workers)
    if engine == "stacked":
        crew.say(_note("the model", dense))
    return crew


def _note(what: str, reason: str) -> str:
    return f"engine = stacked is not possible, silos take their turns one by one: {what} cannot, {reason}"


class StackedCrew(Crew):
    def __init__(
        self, plan: Plan, silos: Mapping[int, Silo], workers: int | None, dense: Dense, *, aloud: bool
    ) -> None:
        super().__init__(plan, silos, workers)
        self._stacks = Stacks(plan.task, dense, self._data, self._tests, self._units)
        self._aloud = aloud
        self._local = _Lift(plan.method.local)
        self._personal = _Lift(plan.method.personal)

    def personals(self, round: int, receive: Callable[[int], State] | None) -> list[Model]:
        def use(clients: Sequence[int], models: Model) -> list[Model]:
            return [_own(row) for row in _rows(models, len(clients))]

        def alone(client: int) -> Model:
            return self.personal(client, round, receive)

        everybody = sorted(self._states)
        models = dict(self._all(self._personal, everybody, round + 1, receive, use, alone))
        return [models[client] for client in everybody]

    def _turns(
        self, round: int, asked: Sequence[int], exchange: Exchange
    ) -> Iterator[tuple[int, tuple[State, str | None]]]:
        def use(clients: Sequence[int], out: tuple[State, State]) -> list[tuple[State, str | None]]:
            return _delivered(clients, *out, exchange)

        def alone(client: int) -> tuple[State, str | None]:
            return self._take(client, round, exchange)

        yield from self._all(self._local, asked, round, exchange.receive, use, alone)
        reason, before = self._local.failing, self._local.failed
        self.executed = "stacked" if reason is None else "loop"
        if self._aloud and reason is not None and before is None:
            self.say(_note(type(self.plan.method).__name__, reason))

    def _scores(self, round: int, receive: Callable[[int], State] | None) -> Iterator[tuple[int, Score]]:
        def alone(client: int) -> Score:
            return self._score(client, round, receive)

        known = {client: self._known(client, receive) for client in sorted(self._states)}
        yield from ((client, score) for client, score in known.items() if score is not None)
        changed = [client for client, score in known.items() if score is None]
        yield from self._all(self._personal, changed, round + 1, receive, self._stacks.scores, alone)

    def _all(
        self,
        lift: _Lift,
        clients: Sequence[int],
        round: int,
        receive: Callable[[int], State] | None,
        use: Callable[[Sequence[int], Any], Sequence[T]],
        alone: Callable[[int], T],
    ) -> Iterator[tuple[int, T]]:
        """Use what a method's function gives for the clients of a stack, or else take them one by one.

        Whatever goes wrong in a stack, they are taken one by one: if it was not about stacking, it goes wrong there
        again, and is said whose it was.
        """
        self._local.settle()
        self._personal.settle()
        if self._local.failed is not None or lift.failed is not None:
            yield from self._each(alone, clients)
            return

        def work(turns: Mapping[int, Turn]) -> list[tuple[int, T]]:
            out = self._try(lift, turns, receive)
            if out is None:
                return [(client, alone(client)) for client in turns]
            return [pair for part, result in out for pair in zip(part, use(part, result), strict=True)]

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
            few = max(8, NUMBERS // self.plan.task.size)
            most = max(1, min(ROWS, few, BYTES // max(1, nbytes(self._states[members[0]]))))
            stacks += _cut(members, [len(turns[client].data.train.y) for client in members], most)
        return [{client: turns[client] for client in stack} for stack in stacks]

    def _try(
        self, lift: _Lift, turns: Mapping[int, Turn], receive: Callable[[int], State] | None
    ) -> list[tuple[list[int], Any]] | None:
        """What the function gives for clients that agree in what it asks for; None where it cannot be lifted."""
        downs = {client: None if receive is None else receive(client) for client in turns}
        even = lift.even

        def run(clients: list[int]) -> Any:
            states = [self._states[client] for client in clients]
            received, taken = [downs[client] for client in clients], [turns[client] for client in clients]
            return self._stacks.run(lift.function, clients, states, received, taken)

        while True:
            try:
                return [(clients, run(clients)) for clients in self._split(turns, even)]
            except Uneven as error:
                assert error.kind not in even, f"clients were made to agree in {error.kind}"
                even = even | {error.kind}
                lift.wanted.add(error.kind)
            except Stopped:
                raise
            except Exception as error:
                lift.failing = _reason(error)
                return None

    def _split(self, turns: Mapping[int, Turn], even: frozenset[Kind]) -> list[list[int]]:
        """The clients of a stack by what they must agree in; their order stays."""
        parts: dict[tuple[int | None, ...], list[int]] = {}
        for client in turns:
            key = tuple(self._stacks.size(client, kind, self.plan.solver.batch) for kind in sorted(even))
            parts.setdefault(key, []).append(client)
        return list(parts.values())


class _Lift:
    """A method's function and what is known about it, which changes between rounds only, for all threads at once."""

    def __init__(self, function: Callable[[Task, State, Any, Turn], Any]) -> None:
        self.function = function
        self.even: frozenset[Kind] = frozenset()  # what the clients of a stack must agree in
        self.failed: str | None = None  # why it cannot be lifted
        self.wanted: set[Kind] = set()  # what threads have found meanwhile
        self.failing: str | None = None

    def settle(self) -> None:
        self.even |= self.wanted
        self.failed = self.failing


def _cut(clients: Sequence[int], sizes: Sequence[int], most: int) -> list[Sequence[int]]:
    """The fewest stacks of at most so many clients, with about as many examples each, so that threads end together."""
    stacks, total = [], list(accumulate(sizes, initial=0))
    start, last = 0, len(clients)
    for left in reversed(range(-(-last // most))):  # stacks that are still to come after this one
        middle = total[start] + (total[last] - total[start]) / (left + 1)
        end = bisect_left(total, middle, lo=start + 1, hi=last)
        end = min(max(end, last - left * most), start + most, last - left)
        stacks.append(clients[start:end])
        start = end
    return stacks


def _reason(error: Exception) -> str:
    text = str(error).partition("\n")[0] or type(error).__name__
    return "its code takes single numbers out of a client's tensors" if text.startswith("vmap: It looks like") else text


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
