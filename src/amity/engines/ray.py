"""The engine beyond one machine: the server's side here, the clients' side in Ray actors, the workers.

A worker gets the plan and its silos' data once, and its clients' states stay with it. In every round it is sent what
its clients download, one copy per machine of what they share, and answers with their uploads, their scores and a few
facts. Turns are those of `crew.py`, from the same keyed streams: the results are those of `simulate`, bit by bit.

After a turn the worker leaves the client's new state in the shared memory of its machine, and only a reference comes
here. It is read for a checkpoint, at the end, and when a worker is lost: another one takes its clients on from there.
Where the machine is lost with that memory, the federation goes back to the last states that were read, or to its
beginning, and repeats the rounds since.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pickle
import secrets
import socket
import tempfile
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from amity.config import Participation
from amity.contract import (
    Choosing,
    Download,
    Federation,
    InputError,
    Method,
    Pick,
    Progress,
    Relational,
    Round,
    Score,
    Silo,
    Solver,
    Split,
    State,
)
from amity.engines.crew import Crew, Exchange, Plan, Sent
from amity.engines.simulate import Notify, rounds, silent
from amity.task import Task

Arrays = dict[str, npt.NDArray[Any]]

DEATHS = 3
"""A worker that dies so many times in one round will die again."""


def check(device: str) -> None:
    """Refuse what this engine cannot do, before anything is computed."""
    if importlib.util.find_spec("ray") is None:
        raise InputError("the ray engine needs ray: pip install 'amity[ray]'")
    if device != "cpu":
        raise InputError(f"the ray engine computes on cpu, got device {device!r}: use another engine, or cpu")


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


def spread(
    method: Method,
    task: Task,
    silos: Sequence[Silo],
    fed: Federation,
    solver: Solver,
    rule: Participation,
    *,
    address: str = "local",
    workers: int | None = None,
    start: Progress | None = None,
    notify: Notify | None = None,
    matrix_dir: Path | None = None,
    evaluate_every: int = 1,
    traffic: Traffic | None = None,
) -> Iterator[Round]:
    """`simulate` with its clients on the workers of a Ray cluster: one that is started here, or that of `address`."""
    plan = Plan(method, task, fed, solver, rule)
    done = 0 if start is None else start.round
    if done >= fed.rounds:
        return
    with cluster(address, min(workers or os.cpu_count() or 1, fed.clients)):
        with _Workers(plan, silos, workers, traffic or Traffic()) as hosts:
            while done < fed.rounds:
                try:
                    for report in rounds(plan, hosts, start, notify or silent, matrix_dir, evaluate_every):
                        if report.round <= done:
                            continue
                        done = report.round
                        yield report._replace(warnings=[*report.warnings, *hosts.news()])
                        if hosts.was_read(report.progress):
                            start = report.progress
                        del report  # or the states before this round would stay alive through the next
                except _StatesLost as lost:
                    hosts.repeat(str(lost), 0 if start is None else start.round, done)


@contextmanager
def cluster(address: str, workers: int) -> Iterator[None]:
    """Be part of a Ray cluster: the one this process has joined, else a private one ("local"), else `address`."""
    check("cpu")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # a failed turn is told once, not again for its state
    if address == "local":
        _keep_private()
    ray = importlib.import_module("ray")
    if ray.is_initialized():
        yield
        return
    # Sockets lie in this folder, and their paths must be short.
    with tempfile.TemporaryDirectory(prefix="amity-", dir="/tmp" if os.path.isdir("/tmp") else None) as folder:
        own: dict[str, Any] = {}
        if address == "local":
            own = {"num_cpus": workers, "include_dashboard": False, "_temp_dir": folder}
            own["_system_config"] = {"worker_niceness": 0}  # Ray's 15 is for workers beside somebody's other work
        try:
            try:
                _join(ray, address, own)
            except InputError:
                if not own:
                    raise
                ray.shutdown()  # what has begun: a busy machine needs more than the 30 seconds that Ray gives
                _join(ray, address, own)
            yield
        finally:
            ray.shutdown()


def _join(ray: Any, address: str, own: Mapping[str, Any]) -> None:
    host, colon, port = address.rpartition(":")
    try:
        if colon and port.isdigit() and "/" not in host:  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address, log_to_driver=False, logging_level="ERROR", configure_logging=False, **own)
    except Exception as error:  # of many kinds, down to Exception itself
        what = "cannot start a Ray cluster here" if own else f"cannot join the Ray cluster {address!r}"
        advice = "try again, or another engine" if own else "start it, or use --ray-address local"
        raise InputError(f"{what} ({_reason(error)}): {advice}") from error


def _keep_private() -> None:
    """A cluster of our own listens on loopback only, to holders of its token, and reports nothing to anybody."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # Ray's switch for loopback, on Linux too
    if not any(name.startswith("RAY_AUTH_") for name in os.environ):
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


class _StatesLost(Exception):
    """A machine is gone with the states of its clients. The text is their names."""


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


class _Workers:
    """The clients' side, spread over actors. Used as a context: leaving it ends them."""

    executed: Literal["loop"] = "loop"

    def __init__(self, plan: Plan, silos: Sequence[Silo], workers: int | None, traffic: Traffic) -> None:
        self._ray = importlib.import_module("ray")
        self._plan = plan
        self._silos = silos
        self._traffic = traffic
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
            for at, (node,) in self._gather((at, self._setup(host)) for at, host in enumerate(self._hosts)):
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
        packed = {client: _packed(state) for client, state in (states or {}).items()}
        self._kept = {client: _State(self._ray.put(arrays), _size(arrays)) for client, arrays in packed.items()}
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
                    exchange.deliver(client, {}, {key: _seen(value) for key, value in answer.uploads[client].items()})
                yield client, answer.refused.get(client)

    def evaluate(self, round: int, receive: Sent | None) -> Iterator[tuple[int, Score]]:
        mine = {at: host.clients for at, host in enumerate(self._hosts)}
        messages = ((at, (None, None)) for at in mine) if receive is None else self._sent(receive, mine)
        calls = ((at, _Call("evaluate", (round, mine[at], *message))) for at, message in messages)
        for at, (answer,) in self._gather(calls):
            for client, (right, *others) in zip(mine[at], answer, strict=True):
                yield client, Score(_own(right), *others)

    def relations(self) -> Tensor | None:
        if not isinstance(self._plan.method, Relational):
            return None
        return torch.stack([_own(row) for row in self._told("relations")])

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
        owned = {client: {key: _own(value) for key, value in arrays.items()} for client, arrays in found.items()}
        return [owned[c] if c in owned else method.init_client(task, fed, c) for c in range(fed.clients)]

    def _gather(self, calls: Iterable[tuple[int, _Call]]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Answers as they come: the first return value, and references to the others. Lost workers are replaced.

        A worker begins while the calls of the others are still being made.
        """
        waiting: dict[Any, tuple[int, _Call, list[Any]]] = {}

        def submit(at: int, call: _Call) -> None:
            made = getattr(self._hosts[at].actor, call.name).options(num_returns=call.returns).remote(*call.arguments)
            first, *others = made if call.returns > 1 else [made]
            waiting[first] = at, call, others

        for at, call in calls:
            submit(at, call)
        while waiting:
            (ready,), _ = self._ray.wait(list(waiting), num_returns=1)
            at, call, others = waiting.pop(ready)
            try:
                answer = self._got(ready)
            except _Dead as error:
                self._replace(at, error)
                submit(at, call)
                continue
            except _StatesLost as error:
                raise _StatesLost(self._names(at)) from error
            self._traffic.up += _size(answer)
            yield at, (answer, *others)

    def _got(self, reference: Any) -> Any:
        wrong = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except wrong.RayTaskError as error:
            if isinstance(error.cause, wrong.ObjectLostError):
                raise _StatesLost from error
            raise error.cause or error from None
        except wrong.ObjectLostError as error:
            raise _StatesLost from error
        except (wrong.RayActorError, wrong.WorkerCrashedError, wrong.NodeDiedError) as error:
            raise _Dead(_reason(error)) from error

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
            except _StatesLost as error:
                raise _StatesLost(names) from error
            self._news.append(f"a worker died ({reason}): {names} were redone by another")
            return

    def _names(self, at: int) -> str:
        names = [self._silos[client].name for client in self._hosts[at].clients]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"silos {', '.join(names[:3])}{more}" if len(names) > 1 else f"silo {names[0]}"

    def _actor(self, cores: int) -> Any:
        return self._ray.remote(_Worker).options(num_cpus=cores, scheduling_strategy="SPREAD").remote()

    def _setup(self, host: _Host) -> _Call:
        data = {client: _packed_silo(self._silos[client]) for client in host.clients}
        self._traffic.setup += len(self._recipe) + _size(data)
        return _Call("set_up", (self._recipe, self._ray.put(data)))

    def _beginning(self, host: _Host) -> _Call:
        known = {client: self._kept[client] for client in host.clients if client in self._kept}
        self._traffic.states += sum(state.size for state in known.values())
        return _Call("begin", (list(known), *(state.reference for state in known.values())))

    def _sent(self, sent: Sent, mine: Mapping[int, list[int]]) -> Iterator[tuple[int, tuple[Any, Any]]]:
        """References to what each worker is sent: what all share, and what is its clients' own."""
        shared, each = _split(sent.down)
        nodes = {self._hosts[at].node for at in mine}
        self._traffic.down += len(nodes) * _size(shared)
        common = self._ray.put(shared)
        for at, clients in mine.items():
            places = torch.tensor([sent.at[client] for client in clients])
            own = {key: _array(value[places]) for key, value in each.items()}
            self._traffic.down += _size(own)
            yield at, (common, self._ray.put(own))


class _Dead(Exception):
    """A worker has died."""


class _Distant(Sequence[State]):
    """States that lie at the workers, fetched when first read."""

    def __init__(self, workers: _Workers, kept: dict[int, _State]) -> None:
        self._workers: _Workers | None = workers
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


class _Trained(NamedTuple):
    uploads: dict[int, Arrays]
    refused: dict[int, str]
    sizes: dict[int, int]  # of the states that follow


class _Worker:
    """What runs in a worker's process: a crew of one thread."""

    def __init__(self) -> None:
        torch.set_num_threads(1)

    def set_up(self, recipe: bytes, data: Mapping[int, Any]) -> str:
        plan: Plan = pickle.loads(recipe)
        self._clients = sorted(data)
        self._crew = Crew(plan, {client: _unpacked_silo(parts) for client, parts in data.items()}, workers=1)
        node: str = importlib.import_module("ray").get_runtime_context().get_node_id()
        return node

    def begin(self, known: Sequence[int], *states: Arrays) -> None:
        method, task, fed, *_ = self._crew.plan
        given = {c: {k: _own(v) for k, v in arrays.items()} for c, arrays in zip(known, states, strict=True)}
        self._crew.begin({c: given[c] if c in given else method.init_client(task, fed, c) for c in self._clients})

    def train(
        self, round: int, clients: list[int], lost: frozenset[int], shared: Any, each: Arrays
    ) -> tuple[_Trained | Arrays, ...]:
        outbox = _Outbox(Sent(clients, _joined(shared, each, len(clients))))
        done = dict(self._crew.train(round, clients, lost, outbox))
        refused = {client: why for client, why in done.items() if why is not None}
        after = dict(zip(self._clients, self._crew.states(), strict=True))
        states = {client: {} if client in refused else _packed(after[client]) for client in clients}
        sizes = {client: _size(state) for client, state in states.items()}
        return _Trained(outbox.uploads, refused, sizes), *states.values()

    def evaluate(self, round: int, clients: list[int], shared: Any, each: Arrays | None) -> list[tuple[Any, ...]]:
        receive = None if each is None else Sent(clients, _joined(shared, each, len(clients)))
        scores = dict(self._crew.evaluate(round, receive))
        return [(_array(right), *others) for right, *others in (scores[client] for client in clients)]

    def relations(self) -> npt.NDArray[Any] | None:
        relations = self._crew.relations()
        return None if relations is None else _array(relations)

    def holds(self) -> list[str] | None:
        return self._crew.holds()


@dataclass
class _Outbox:
    """A worker's end of the exchange."""

    sent: Sent
    uploads: dict[int, Arrays] = field(default_factory=dict)

    def receive(self, client: int) -> State:
        return self.sent(client)

    def deliver(self, client: int, state: State, upload: State) -> State:
        self.uploads[client] = _packed(upload)
        return state


def dealt(sizes: Sequence[int], workers: int) -> list[list[int]]:
    """Clients to workers, fixed for a run: the largest first, each to whoever has the fewest examples."""
    hands: list[list[int]] = [[] for _ in range(workers)]
    for client in sorted(range(len(sizes)), key=lambda client: -sizes[client]):
        least = min(hands, key=lambda hand: (sum(sizes[c] for c in hand), len(hand)))
        least.append(client)
    return [sorted(hand) for hand in hands]


def _split(down: Download) -> tuple[dict[str, Arrays], State]:
    """A download as what is put once for all workers, and the rows that go to their receivers.

    Rows that are forwarded, and one row shown to all, count as shared: a machine needs them once.
    """
    forwarded = {key: value for key, value in down.each.items() if isinstance(value, Pick)}
    rows = {key: value for key, value in down.each.items() if isinstance(value, Tensor)}
    alike = {key: value[0] for key, value in rows.items() if value.stride(0) == 0 and len(value) > 1}
    shared = {
        "shared": _packed(down.shared),
        "forwarded": {key: _array(value.rows) for key, value in forwarded.items()},
        "alike": _packed(alike),
    }
    own = {key: value for key, value in rows.items() if key not in alike}
    return shared, {**own, **{key: value.chosen for key, value in forwarded.items()}}


def _joined(shared: Mapping[str, Arrays], each: Arrays, count: int) -> Download:
    """The download again, for this worker's clients. Nothing of it lies in Ray's memory but what is forwarded."""
    stores = shared["forwarded"]
    rows: dict[str, Tensor | Pick] = {
        key: Pick(_seen(stores[key]), _own(value)) if key in stores else _own(value) for key, value in each.items()
    }
    alike = {key: _own(value).expand(count, *value.shape) for key, value in shared["alike"].items()}
    return Download({key: _own(value) for key, value in shared["shared"].items()}, {**rows, **alike})


def _array(value: Tensor) -> npt.NDArray[Any]:
    return np.ascontiguousarray(value.detach().numpy()).reshape(value.shape)  # which would make [1] of a scalar


def _packed(state: State) -> Arrays:
    return {key: _array(value) for key, value in state.items()}


def _seen(array: npt.NDArray[Any]) -> Tensor:
    """A view into Ray's memory, to read from."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(array)


def _own(array: npt.NDArray[Any]) -> Tensor:
    return _seen(array).clone()


def _packed_silo(silo: Silo) -> tuple[Any, ...]:
    splits = [None if split is None else tuple(map(_array, split)) for split in (silo.train, silo.test, silo.val)]
    return silo.name, *splits, silo.group, silo.scale


def _unpacked_silo(parts: tuple[Any, ...]) -> Silo:
    name, *splits, group, scale = parts
    train, test, val = (None if split is None else Split(*map(_own, split)) for split in splits)
    assert train is not None and test is not None
    return Silo(name, train, test, val, group, scale)


def _pickled(plan: Plan) -> bytes:
    dumps = importlib.import_module("ray.cloudpickle").dumps
    try:
        recipe: bytes = dumps(plan)
    except Exception as error:
        raise InputError(
            f"the ray engine sends model and method to its workers, but they cannot be pickled ({_reason(error)}): "
            "define them at the top of a module"
        ) from error
    return recipe


def _size(value: Any) -> int:
    """Bytes of a message: its pickle, with arrays beside it."""
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(text) + sum(buffer.raw().nbytes for buffer in buffers)


def _reason(error: BaseException) -> str:
    """Ray's messages are long. What a worker could not even begin with stands at their end."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return (lines[-1] if "creation task" in lines[0] else lines[0]).rstrip(".")
