"""The workers as the server's side sees them: who hosts which clients, calls and answers, and what to do when one dies.

See ray.py.
"""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, overload

import torch
from torch import Tensor

from amity.contract import Choosing, InputError, Progress, Relational, Score, Silo, State
from amity.engines.crew import Exchange, Plan, Sent
from amity.engines.messages import array_of, divided, own, packed, packed_silo, seen, size_of
from amity.engines.ray_worker import Worker
from amity.engines.simulate import Notify

DEATHS = 3
"""A worker that dies so many times in one round will die again."""

PATIENCE = 10.0
"""Seconds without an answer after which it is told that workers have not begun: others may use the cores."""


@dataclass
class Traffic:
    """Bytes between this process and the workers, by what they were for."""

    setup: int = 0  # plan and data: once per worker, and once more for one that takes over
    down: int = 0
    up: int = 0  # uploads, scores and facts
    states: int = 0  # of clients: read here, or given to a worker to start from
    kept: int = 0  # copies of states left in the memory of the worker's machine, for recovery: these do not move

    @property
    def moved(self) -> int:
        return self.setup + self.down + self.up + self.states


class Workers:
    """The clients' side, spread over actors. Used as a context: leaving it ends them."""

    executed: Literal["loop"] = "loop"

    def __init__(
        self, plan: Plan, silos: Sequence[Silo], workers: int | None, traffic: Traffic, notify: Notify
    ) -> None:
        self._ray = importlib.import_module("ray")
        self._plan = plan
        self._silos = silos
        self._traffic = traffic
        self._notify = notify
        self._recipe = _pickled(plan)
        self._kept: dict[int, _State] = {}  # none for a client that has its first state
        self._news: list[str] = []
        self._reported: weakref.WeakSet[_Distant] = weakref.WeakSet()
        cores = int(self._ray.cluster_resources().get("CPU", 0))
        count = min(workers or cores, plan.fed.clients)
        if not 1 <= count <= cores:
            raise InputError(f"the Ray cluster has {cores} cores, got --workers {count}: ask for at most as many")
        self._hosts = [_Host(clients) for clients in dealt(plan.fed.sizes.tolist(), count)]

    def __enter__(self) -> Self:
        try:
            for host in self._hosts:
                host.actor = self._actor(cores=1)
            calls = ((at, self._setup(host)) for at, host in enumerate(self._hosts))
            for at, (node,) in self._gather(calls, patience=PATIENCE):
                self._hosts[at].node = node
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        up = self._ray.is_initialized()  # Ray ends itself when the program does, and would start again if asked
        for states in list(self._reported):  # whoever holds the progress of a round may still want them
            states.close(fetch=up)
        for host in self._hosts:
            if up and host.actor is not None:
                self._ray.kill(host.actor)

    def begin(self, states: Mapping[int, State] | None = None) -> None:
        ready = {client: packed(state) for client, state in (states or {}).items()}
        self._kept = {client: _State(self._ray.put(arrays), size_of(arrays)) for client, arrays in ready.items()}
        for _ in self._gather((at, self._beginning(host)) for at, host in enumerate(self._hosts)):
            pass

    def states(self) -> _Distant:
        states = _Distant(self, dict(self._kept))
        self._reported.add(states)
        return states

    def train(
        self, round: int, asked: Sequence[int], lost: frozenset[int], exchange: Exchange
    ) -> Iterator[tuple[int, str | None]]:
        for host in self._hosts:
            host.deaths = 0
        wanted = set(asked)
        mine = {at: [c for c in host.clients if c in wanted] for at, host in enumerate(self._hosts)}
        mine = {at: clients for at, clients in mine.items() if clients}
        calls = (
            (at, _Call("train", (round, mine[at], lost & set(mine[at]), *message), 1 + len(mine[at])))
            for at, message in self._sent(exchange.sent, mine)
        )
        for at, (answer, *states) in self._gather(calls):
            for client, state in zip(mine[at], states, strict=True):
                if client in answer.uploads:
                    self._kept[client] = _State(state, answer.sizes[client])
                    self._traffic.kept += answer.sizes[client]
                    exchange.deliver(client, {}, {key: seen(value) for key, value in answer.uploads[client].items()})
                yield client, answer.refused.get(client)

    def evaluate(self, round: int, receive: Sent | None) -> Iterator[tuple[int, Score]]:
        mine = {at: host.clients for at, host in enumerate(self._hosts)}
        messages = ((at, (None, None)) for at in mine) if receive is None else self._sent(receive, mine)
        calls = ((at, _Call("evaluate", (round, mine[at], *message))) for at, message in messages)
        for at, (answer,) in self._gather(calls):
            for client, (right, *others) in zip(mine[at], answer, strict=True):
                yield client, Score(own(right), *others)

    def relations(self) -> Tensor | None:
        if not isinstance(self._plan.method, Relational):
            return None
        return torch.stack([own(row) for row in self._told("relations")])

    def holds(self) -> list[str] | None:
        return self._told("holds") if isinstance(self._plan.method, Choosing) else None

    def _told(self, fact: str) -> list[Any]:
        """What every client's worker knows about it."""
        answers = self._gather((at, _Call(fact, ())) for at in range(len(self._hosts)))
        told = {c: fact for at, (facts,) in answers for c, fact in zip(self._hosts[at].clients, facts, strict=True)}
        return [told[client] for client in sorted(told)]

    def notes(self) -> list[str]:
        return []  # what there is to say, `spread` says when a round counts

    def news(self) -> list[str]:
        """What happened to workers since it was last asked."""
        news, self._news = self._news, []
        return news

    def was_read(self, progress: Progress) -> bool:
        return isinstance(progress.clients, _Distant) and progress.clients.read

    def repeat(self, lost: str, since: int, done: int) -> None:
        """Say why rounds come again: all that were begun after `since`."""
        if len(self._news) >= 2 * DEATHS:
            raise InputError(
                f"the states of {lost} were lost again and again in one round: look at the cluster's machines"
            )
        self._news.append(f"a machine was lost with {lost}: rounds {since + 1} to {done + 1} were done again by others")

    def read(self, kept: Mapping[int, _State]) -> list[State]:
        """The states behind references; first states are made again."""
        method, task, fed, *_ = self._plan
        found = dict(zip(kept, self._ray.get([state.reference for state in kept.values()]), strict=True))
        self._traffic.states += sum(state.size for state in kept.values())
        owned = {client: {key: own(value) for key, value in arrays.items()} for client, arrays in found.items()}
        return [owned[c] if c in owned else method.init_client(task, fed, c) for c in range(fed.clients)]

    def _gather(
        self, calls: Iterable[tuple[int, _Call]], patience: float | None = None
    ) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Answers as they come: the first return value, and references to the others. Lost workers are replaced.

        A worker begins while the calls of the others are still being made. `patience`: see PATIENCE.
        """
        waiting: dict[Any, tuple[int, _Call, list[Any]]] = {}

        def submit(at: int, call: _Call) -> None:
            made = getattr(self._hosts[at].actor, call.name).options(num_returns=call.returns).remote(*call.arguments)
            first, *others = made if call.returns > 1 else [made]
            waiting[first] = at, call, others

        for at, call in calls:
            submit(at, call)
        while waiting:
            answered, _ = self._ray.wait(list(waiting), num_returns=1, timeout=patience)
            if not answered:
                self._notify("wait", len(self._hosts) - len(waiting), len(self._hosts))
                continue
            (ready,) = answered
            at, call, others = waiting.pop(ready)
            try:
                answer = self._got(ready)
            except _Dead as error:
                self._replace(at, error)
                submit(at, call)
                continue
            except StatesLost as error:
                raise StatesLost(self._names(at)) from error
            self._traffic.up += size_of(answer)
            yield at, (answer, *others)

    def _got(self, reference: Any) -> Any:
        wrong = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except wrong.RayTaskError as error:
            if isinstance(error.cause, wrong.ObjectLostError):
                raise StatesLost from error
            raise error.cause or error from None
        except wrong.ObjectLostError as error:
            raise StatesLost from error
        except (wrong.RayActorError, wrong.WorkerCrashedError, wrong.NodeDiedError) as error:
            raise _Dead(reason_of(error)) from error

    def _replace(self, at: int, reason: _Dead) -> None:
        """Another worker for the clients of one that died, in the state they were in."""
        host = self._hosts[at]
        while True:
            host.deaths += 1
            names = self._names(at)
            if host.deaths == DEATHS:
                raise InputError(
                    f"the worker of {names} died {DEATHS} times in one round ({reason}): "
                    "look at its memory, then continue with --resume"
                ) from reason
            self._ray.kill(host.actor)
            host.actor = self._actor(cores=0)  # there may be no free one: then beside others
            try:
                for call in (self._setup(host), self._beginning(host)):
                    answer = self._got(getattr(host.actor, call.name).remote(*call.arguments))
                    host.node = answer or host.node
            except _Dead as error:
                reason = error
                continue
            except StatesLost as error:
                raise StatesLost(names) from error
            self._news.append(f"a worker died ({reason}): {names} were redone by another")
            return

    def _names(self, at: int) -> str:
        names = [self._silos[client].name for client in self._hosts[at].clients]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"silos {', '.join(names[:3])}{more}" if len(names) > 1 else f"silo {names[0]}"

    def _actor(self, cores: int) -> Any:
        return self._ray.remote(Worker).options(num_cpus=cores, scheduling_strategy="SPREAD").remote()

    def _setup(self, host: _Host) -> _Call:
        data = {client: packed_silo(self._silos[client]) for client in host.clients}
        self._traffic.setup += len(self._recipe) + size_of(data)
        return _Call("set_up", (self._recipe, self._ray.put(data)))

    def _beginning(self, host: _Host) -> _Call:
        known = {client: self._kept[client] for client in host.clients if client in self._kept}
        self._traffic.states += sum(state.size for state in known.values())
        return _Call("begin", (list(known), *(state.reference for state in known.values())))

    def _sent(self, sent: Sent, mine: Mapping[int, list[int]]) -> Iterator[tuple[int, tuple[Any, Any]]]:
        """References to what each worker is sent: what all share, and what is its clients' own."""
        shared, each = divided(sent.down)
        nodes = {self._hosts[at].node for at in mine}
        self._traffic.down += len(nodes) * size_of(shared)
        common = self._ray.put(shared)
        for at, clients in mine.items():
            places = torch.tensor([sent.at[client] for client in clients])
            rows = {key: array_of(value[places]) for key, value in each.items()}
            self._traffic.down += size_of(rows)
            yield at, (common, self._ray.put(rows))


class StatesLost(Exception):
    """A machine is gone with the states of its clients. The text is their names."""


class _Dead(Exception):
    """A worker has died."""


class _State(NamedTuple):
    """A client's state, in the memory of the machine where it came to be."""

    reference: Any
    size: int  # in bytes


class _Call(NamedTuple):
    name: str
    arguments: tuple[Any, ...]
    returns: int = 1


@dataclass
class _Host:
    """One worker and the clients that it was given for good."""

    clients: list[int]
    actor: Any = None
    node: str = ""
    deaths: int = 0  # in this round


class _Distant(Sequence[State]):
    """States that lie at the workers, fetched when first read."""

    def __init__(self, workers: Workers, kept: dict[int, _State]) -> None:
        self._workers: Workers | None = workers
        self._count = workers._plan.fed.clients
        self._lost: type[Exception] = workers._ray.exceptions.RayError
        self._kept = kept
        self._states: list[State] | None = None

    @property
    def read(self) -> bool:
        return self._states is not None

    def close(self, fetch: bool) -> None:
        """Fetch while there is somewhere to fetch from."""
        if fetch:
            with suppress(self._lost):  # an error for whoever reads them
                self._fetched()
        self._workers, self._kept = None, {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> State: ...
    @overload
    def __getitem__(self, index: slice) -> list[State]: ...
    def __getitem__(self, index: int | slice) -> State | list[State]:
        return self._fetched()[index]

    def _fetched(self) -> list[State]:
        if self._states is None:
            if self._workers is None:
                raise InputError("the states of this round are gone with their workers: continue with --resume")
            self._states = self._workers.read(self._kept)
            self._kept = {}
        return self._states


def dealt(sizes: Sequence[int], workers: int) -> list[list[int]]:
    """Clients to workers, fixed for a run: the largest first, each to whoever has the fewest examples."""
    hands: list[list[int]] = [[] for _ in range(workers)]
    for client in sorted(range(len(sizes)), key=lambda client: -sizes[client]):
        least = min(hands, key=lambda hand: (sum(sizes[c] for c in hand), len(hand)))
        least.append(client)
    return [sorted(hand) for hand in hands]


def _pickled(plan: Plan) -> bytes:
    dumps = importlib.import_module("ray.cloudpickle").dumps
    try:
        recipe: bytes = dumps(plan)
    except Exception as error:
        raise InputError(
            f"the ray engine sends model and method to its workers, but they cannot be pickled ({reason_of(error)}): "
            "define them at the top of a module"
        ) from error
    return recipe


def reason_of(error: BaseException) -> str:
    """Ray's messages are long. What a worker could not even begin with stands at their end."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return (lines[-1] if "creation task" in lines[0] else lines[0]).rstrip(".")
