"""A carrier whose silos advance together, where their model and method allow it.

The clients asked are dealt into stacks that depend on who they are and on nothing else, so that the number of threads
changes no bit. Where code of the method cannot be lifted, because it branches on a client's numbers, say, the stack
takes its turns one by one, and from the next round on all do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, Literal, TypeVar

from amity.contract import Consults, Model, Silo, State, Turn, measured_keys, nbytes
from amity.engines.local.dense import Dense, dense_of
from amity.engines.local.lift import Stacks
from amity.engines.local.stacked_examples import Kind, Uneven
from amity.engines.local.threads import Threads
from amity.federation.carrier import Outbox
from amity.federation.messages import Answer, Train, Upload
from amity.federation.plan import Plan
from amity.federation.silo import Pending, Stopped
from amity.federation.small_counts import rows_without_scores
from amity.learn.task import Task

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


def carrier_of(
    engine: Engine,
    plan: Plan,
    silos: Mapping[int, Silo],
    workers: int | None = None,
    folder: Path | None = None,
) -> Threads:
    """The carrier that an engine means for this plan; `auto` stacks two or more silos with a small dense model."""
    # Every silo has noise of its own, from its own secret, or encrypts what it uploads by itself.
    alone = plan.privacy is not None or isinstance(plan.method, Consults)
    if engine == "loop" or alone or (engine == "auto" and (len(silos) < 2 or plan.task.size > LARGEST)):
        return Threads(plan, silos, workers, folder)
    dense = dense_of(plan.task)
    if isinstance(dense, Dense):
        return Stacked(plan, silos, workers, folder, dense, aloud=engine == "stacked")
    carrier = Threads(plan, silos, workers, folder)
    if engine == "stacked":
        carrier.say(_note("the model", dense))
    return carrier


def _note(what: str, reason: str) -> str:
    return f"engine = stacked is not possible, silos take their turns one by one: {what} cannot, {reason}"


class Stacked(Threads):
    """Silos that advance together, as rows of one matrix."""

    def __init__(
        self,
        plan: Plan,
        silos: Mapping[int, Silo],
        workers: int | None,
        folder: Path | None,
        dense: Dense,
        *,
        aloud: bool,
    ) -> None:
        super().__init__(plan, silos, workers, folder)
        self._dense = dense
        self._stacks = self._stacked()
        self._aloud = aloud
        self._local = _Lift(plan.method.local)
        self._personal = _Lift(plan.method.personal)

    def host(self, plan: Plan, client: int, silo: Silo) -> None:
        super().host(plan, client, silo)
        self._stacks = self._stacked()

    def _stacked(self) -> Stacks:
        """The hosted silos' data, ready to be read as rows."""
        data = {client: silo.data for client, silo in self.silos.items()}
        tests = {client: silo.test for client, silo in self.silos.items()}
        units = {client: silo.unit for client, silo in self.silos.items()}
        return Stacks(self.plan.task, self._dense, data, tests, units)

    def delivered(self) -> list[Model]:
        def use(clients: Sequence[int], models: Model) -> list[Model]:
            return [_own(row) for row in _rows(models, len(clients))]

        everybody = sorted(self.silos)
        kept = [self.silos[client].kept for client in everybody]
        round = next((one.round for one in kept if one is not None), 0)
        states = {c: one.state for c, one in zip(everybody, kept, strict=True) if one is not None}
        downs = {c: one.down for c, one in zip(everybody, kept, strict=True) if one is not None}

        def alone(client: int) -> list[Model]:
            return [self.silos[client].delivered()]

        rounds = {one.round for one in kept if one is not None}
        if len(states) < len(everybody) or len(rounds) > 1:  # silos that have left keep a model of their own round
            return super().delivered()
        models = {
            client: model
            for clients, found in self._all(self._personal, everybody, round + 1, states, downs.get, use, alone)
            for client, model in zip(clients, found, strict=True)
        }
        return [models[client] for client in everybody]

    def _work(self, messages: Outbox) -> Iterator[tuple[Sequence[int], Answer]]:
        return self._turns(messages) if messages.kind is Train else self._scores(messages)

    def _turns(self, messages: Outbox) -> Iterator[tuple[Sequence[int], Answer]]:
        run, round = self.plan.run, messages.round
        keys, least = measured_keys(self.plan.method), self.plan.min_count

        def use(clients: Sequence[int], out: tuple[State, State]) -> list[Upload]:
            states, uploads = out
            for client, state in zip(clients, _rows(states, len(clients)), strict=True):
                self.silos[client].pending = Pending(round, _own(state))
            told = rows_without_scores(uploads, keys, [self.silos[client].data for client in clients], least)
            one = {key: value[0] for key, value in told.items()} if len(clients) == 1 else told
            return [Upload(run, round, clients[0], one)]

        def alone(client: int) -> list[Answer]:
            return [self.alone(messages[client])]

        states = {client: self.silos[client].state for client in messages}
        for clients, (answer,) in self._all(self._local, list(messages), round, states, messages.to, use, alone):
            yield clients, answer
        reason, before = self._local.failing, self._local.failed
        self.executed = "stacked" if reason is None else "loop"
        if self._aloud and reason is not None and before is None:
            self.say(_note(type(self.plan.method).__name__, reason))

    def _scores(self, messages: Outbox) -> Iterator[tuple[Sequence[int], Answer]]:
        round = messages.round
        known = [c for c in messages if messages.down is None and self.silos[c].unchanged]
        yield from (((client,), self.alone(messages[client])) for client in known)
        changed = [client for client in messages if client not in set(known)]

        def use(clients: Sequence[int], models: Model) -> list[Answer]:
            found = self._stacks.scores(clients, models)
            for client, score in zip(clients, found, strict=True):
                self.silos[client].scored(score, held=messages.down is None)
            return [self.silos[client].report(round, score) for client, score in zip(clients, found, strict=True)]

        def alone(client: int) -> list[Answer]:
            return [self.alone(messages[client])]

        states = {client: self.silos[client].state for client in changed}
        for clients, answers in self._all(self._personal, changed, round + 1, states, messages.to, use, alone):
            yield from (((client,), answer) for client, answer in zip(clients, answers, strict=True))

    def _all(
        self,
        lift: _Lift,
        clients: Sequence[int],
        round: int,
        states: Mapping[int, State],
        receive: Callable[[int], State | None],
        use: Callable[[Sequence[int], Any], Sequence[T]],
        alone: Callable[[int], Sequence[T]],
    ) -> Iterator[tuple[Sequence[int], Sequence[T]]]:
        """Use what a method's function gives for the silos of a stack, or else take them one by one.

        Whatever goes wrong in a stack, they are taken one by one: if it was not about stacking, it goes wrong there
        again, and is said whose it was.
        """
        self._local.settle()
        self._personal.settle()
        if self._local.failed is not None or lift.failed is not None:
            for client, found in self._each(alone, clients):
                yield (client,), found
            return

        def work(turns: Mapping[int, Turn]) -> list[tuple[Sequence[int], Sequence[T]]]:
            out = self._try(lift, turns, states, receive)
            if out is None:
                return [((client,), alone(client)) for client in turns]
            return [(part, use(part, result)) for part, result in out]

        turns = {client: self.silos[client].turn(round) for client in clients}
        for _, done in self._each(work, self._deal(turns, states)):
            yield from done

    def _deal(self, turns: Mapping[int, Turn], states: Mapping[int, State]) -> list[dict[int, Turn]]:
        """Stacks of silos with equal epochs, with or without validation data, largest first."""

        def kind(client: int) -> tuple[int, bool]:
            return turns[client].epochs, turns[client].data.val is None

        ordered = sorted(turns, key=lambda client: (*kind(client), -len(turns[client].data.train.y), client))
        stacks = []
        for _, group in groupby(ordered, kind):
            members = list(group)
            few = max(8, NUMBERS // self.plan.task.size)
            most = max(1, min(ROWS, few, BYTES // max(1, nbytes(states[members[0]]))))
            stacks += _cut(members, [len(turns[client].data.train.y) for client in members], most)
        return [{client: turns[client] for client in stack} for stack in stacks]

    def _try(
        self,
        lift: _Lift,
        turns: Mapping[int, Turn],
        states: Mapping[int, State],
        receive: Callable[[int], State | None],
    ) -> list[tuple[list[int], Any]] | None:
        """What the function gives for silos that agree in what it asks for; None where it cannot be lifted."""
        downs = {client: receive(client) for client in turns}
        even = lift.even

        def run(clients: list[int]) -> Any:
            own = [states[client] for client in clients]
            received, taken = [downs[client] for client in clients], [turns[client] for client in clients]
            return self._stacks.run(lift.function, clients, own, received, taken)

        while True:
            try:
                return [(clients, run(clients)) for clients in self._split(turns, even)]
            except Uneven as error:
                assert error.kind not in even, f"silos were made to agree in {error.kind}"
                even = even | {error.kind}
                lift.wanted.add(error.kind)
            except Stopped:
                raise
            except Exception as error:
                lift.failing = _reason(error)
                return None

    def _split(self, turns: Mapping[int, Turn], even: frozenset[Kind]) -> list[list[int]]:
        """The silos of a stack by what they must agree in; their order stays."""
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


def _rows(stacked: State, count: int) -> list[State]:
    columns = {key: value.unbind(0) for key, value in stacked.items()}
    return [{key: column[at] for key, column in columns.items()} for at in range(count)]


def _own(row: State) -> State:
    """A client's own tensors, which do not keep those of the others alive."""
    return {key: value.clone() for key, value in row.items()}
