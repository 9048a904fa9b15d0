"""The workers as the server's side sees them: a carrier whose silos are hosted by Ray actors.

A worker gets the plan and its silos' data once, and its silos' states stay with it. In every round it is sent what its
silos download, one copy per machine of what they share, and answers with their uploads and a few facts. Where a worker
is lost, `LostWorker` is raised: the run goes back to the last checkpoint (`federation/course.py`).
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

import torch

from amity.contract import Download, InputError, Silo, State
from amity.engines.local.storage import LocalStorage
from amity.engines.ray.arrays import array_of, divided, packed, packed_silo, size_of, viewed
from amity.engines.ray.cluster import Health, reason_of
from amity.engines.ray.door import RayDoor
from amity.engines.ray.worker import Worker
from amity.errors import LostWorker, OutOfMemory
from amity.federation.carrier import Outbox
from amity.federation.events import Event, Listener
from amity.federation.messages import Answer, Told, Upload
from amity.federation.plan import Plan

PATIENCE = 10.0
"""Seconds without an answer after which it is told that workers have not begun: others may use the cores."""

PULSE = 0.05
"""Seconds between looks at the cluster while answers are waited for: Ray looks for what is lost once a second."""

SETTLED = 0.5
"""Seconds after which a worker that has died was the only one to die: else the whole cluster goes down with it."""


@dataclass
class Traffic:
    """Bytes between this process and the workers, by what they were for."""

    setup: int = 0  # plan and data: once per worker, and once more after one was lost
    down: int = 0
    up: int = 0  # uploads, scores and facts
    states: int = 0  # of silos: read here for a checkpoint, or given to a worker to start from

    @property
    def moved(self) -> int:
        """All bytes that have moved."""
        return self.setup + self.down + self.up + self.states


class Workers:
    """Silos spread over actors. Used as a context: leaving it ends them."""

    executed: Literal["loop"] = "loop"

    def __init__(
        self,
        plan: Plan,
        silos: Sequence[Silo],
        workers: int | None,
        traffic: Traffic,
        events: Listener,
        folder: Path | None = None,
    ) -> None:
        self._ray = importlib.import_module("ray")
        self.plan = plan
        self.storage = LocalStorage({}, plan.fed.clients, folder)
        self._silos = silos
        self.traffic = traffic
        self._events = events
        self._health = Health(self._ray)
        self._recipe = _pickled(plan)
        cores = int(self._ray.cluster_resources().get("CPU", 0))
        count = min(workers or cores, plan.fed.clients)
        if not 1 <= count <= cores:
            raise InputError(f"the Ray cluster has {cores} cores, got --workers {count}: ask for at most as many")
        self.hosts = [_Host(clients) for clients in dealt(plan.fed.sizes.tolist(), count)]
        self.at = {client: at for at, host in enumerate(self.hosts) for client in host.clients}

    def __enter__(self) -> Self:
        try:
            for host in self.hosts:
                host.actor = self._ray.remote(Worker).options(num_cpus=1, scheduling_strategy="SPREAD").remote()
            calls = ((at, self._setup(host)) for at, host in enumerate(self.hosts))
            for at, node in self.gather(calls, patience=PATIENCE):
                self.hosts[at].node = node
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Ray ends itself when the program does, and would start again if asked; and the program, if it is lost itself.
        if self._ray.is_initialized() and self._health.lost() is None:
            for host in self.hosts:
                if host.actor is not None:
                    self._ray.kill(host.actor)

    @property
    def door(self) -> RayDoor:
        return RayDoor(self)

    def notes(self) -> list[str]:
        return []

    def ask(self, messages: Outbox) -> Iterator[tuple[Sequence[int], Answer]]:
        mine: dict[int, list[int]] = {}
        for client in messages:
            mine.setdefault(self.at[client], []).append(client)
        blank = {client: messages.make(client, None) for client in messages}
        calls = (
            (at, Call("ask", ([blank[client] for client in mine[at]], *sent)))
            for at, sent in self._sent(messages.down, messages.places, mine)
        )
        for _, answers in self.gather(calls):
            for client, answer, values in answers:
                if isinstance(answer, Upload | Told) and values is not None:
                    answer = answer._replace(values={key: viewed(value) for key, value in values.items()})
                yield (client,), answer

    def gather(self, calls: Iterable[tuple[int, Call]], patience: float | None = None) -> Iterator[tuple[int, Any]]:
        """Answers as they come. A worker begins while the calls of the others are still being made."""
        waiting: dict[Any, int] = {}
        for at, call in calls:
            waiting[getattr(self.hosts[at].actor, call.name).remote(*call.arguments)] = at
        while waiting:
            answered = self._first(list(waiting), patience)
            if not answered:
                self._events(Event("waiting", done=len(self.hosts) - len(waiting), total=len(self.hosts)))
                continue
            (ready,) = answered
            at = waiting.pop(ready)
            answer = self._got(at, ready)
            self.traffic.up += size_of(answer)
            yield at, answer

    def give(self, name: str, arguments: Sequence[Any], states: Sequence[State]) -> None:
        """Call every worker with the states of its silos."""
        sent = {}
        for at, host in enumerate(self.hosts):
            own = {client: packed(states[client]) for client in host.clients}
            self.traffic.states += size_of(own)
            sent[at] = Call(name, (*arguments, self.put(own)))
        for _ in self.gather(sent.items()):
            pass

    def put(self, value: Any) -> Any:
        """Lay a value into the shared memory of this machine, and give back a reference to it."""
        self._health.check()
        try:
            return self._ray.put(value)
        except self._ray.exceptions.ObjectStoreFullError as error:
            raise OutOfMemory(
                "the shared memory of the Ray cluster is full: take more machines, fewer silos or a smaller model; "
                "--resume continues from the last checkpoint"
            ) from error

    def _first(self, waiting: list[Any], patience: float | None) -> list[Any]:
        """The first that is answered; none, where nothing is for so many seconds."""
        end = None if patience is None else time.monotonic() + patience
        while True:
            self._health.check()
            answered: list[Any] = self._ray.wait(waiting, num_returns=1, timeout=PULSE)[0]
            if answered or (end is not None and time.monotonic() > end):
                return answered

    def _got(self, at: int, reference: Any) -> Any:
        wrong = self._ray.exceptions
        self._health.check()
        try:
            return self._ray.get(reference)
        except wrong.RayTaskError as error:
            if isinstance(error.cause, wrong.ObjectLostError):
                raise self._lost(at, error.cause) from error
            raise error.cause or error from None
        except wrong.RayError as error:
            raise self._lost(at, error) from error

    def _lost(self, at: int, error: Exception) -> LostWorker:
        """The error about a worker that is gone; where the whole cluster is, another one is raised."""
        end = time.monotonic() + SETTLED
        while time.monotonic() < end:
            self._health.check()
            time.sleep(PULSE)
        names = [self._silos[client].name for client in self.hosts[at].clients]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        who = f"silos {', '.join(names[:3])}{more}" if len(names) > 1 else f"silo {names[0]}"
        return LostWorker(f"the worker of {who} is lost ({reason_of(error)})")

    def _setup(self, host: _Host) -> Call:
        data = {client: packed_silo(self._silos[client]) for client in host.clients}
        self.traffic.setup += len(self._recipe) + size_of(data)
        return Call("set_up", (self._recipe, self.put(data)))

    def _sent(
        self, down: Download | None, places: Mapping[int, int], mine: Mapping[int, list[int]]
    ) -> Iterator[tuple[int, tuple[Any, Any]]]:
        """References to what each worker is sent: what all share, and what is its silos' own."""
        if down is None:
            yield from ((at, (None, None)) for at in mine)
            return
        shared, each = divided(down)
        nodes = {self.hosts[at].node for at in mine}
        self.traffic.down += len(nodes) * size_of(shared)
        common = self.put(shared)
        for at, clients in mine.items():
            index = torch.tensor([places[client] for client in clients])
            rows = {key: array_of(value[index]) for key, value in each.items()}
            self.traffic.down += size_of(rows)
            yield at, (common, self.put(rows))


class Call(NamedTuple):
    """A call of a worker."""

    name: str
    arguments: tuple[Any, ...] = ()


@dataclass
class _Host:
    """One worker and the silos that it was given for good."""

    clients: list[int]
    actor: Any = None
    node: str = ""


def dealt(sizes: Sequence[int], workers: int) -> list[list[int]]:
    """Silos to workers, fixed for a run: the largest first, each to whoever has the fewest examples."""
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
