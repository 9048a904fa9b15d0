"""A worker of the Ray engine: what runs in its process. See ray.py."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy.typing as npt
import torch

from amity.contract import State
from amity.engines.crew import Crew, Plan, Sent
from amity.engines.messages import Arrays, array_of, joined, own, packed, size_of, unpacked_silo


class Worker:
    """What runs in a worker's process: a crew of one thread."""

    def __init__(self) -> None:
        torch.set_num_threads(1)

    def set_up(self, recipe: bytes, data: Mapping[int, Any]) -> str:
        plan: Plan = pickle.loads(recipe)
        self._clients = sorted(data)
        self._crew = Crew(plan, {client: unpacked_silo(parts) for client, parts in data.items()}, workers=1)
        node: str = importlib.import_module("ray").get_runtime_context().get_node_id()
        return node

    def begin(self, known: Sequence[int], *states: Arrays) -> None:
        method, task, fed, *_ = self._crew.plan
        given = {c: {k: own(v) for k, v in arrays.items()} for c, arrays in zip(known, states, strict=True)}
        self._crew.begin({c: given[c] if c in given else method.init_client(task, fed, c) for c in self._clients})

    def train(
        self, round: int, clients: list[int], lost: frozenset[int], shared: Any, each: Arrays
    ) -> tuple[Trained | Arrays, ...]:
        outbox = _Outbox(Sent(clients, joined(shared, each, len(clients))))
        done = dict(self._crew.train(round, clients, lost, outbox))
        refused = {client: why for client, why in done.items() if why is not None}
        after = dict(zip(self._clients, self._crew.states(), strict=True))
        states = {client: {} if client in refused else packed(after[client]) for client in clients}
        sizes = {client: size_of(state) for client, state in states.items()}
        return Trained(outbox.uploads, refused, sizes), *states.values()

    def evaluate(self, round: int, clients: list[int], shared: Any, each: Arrays | None) -> list[tuple[Any, ...]]:
        receive = None if each is None else Sent(clients, joined(shared, each, len(clients)))
        scores = dict(self._crew.evaluate(round, receive))
        return [(array_of(right), *others) for right, *others in (scores[client] for client in clients)]

    def relations(self) -> npt.NDArray[Any] | None:
        relations = self._crew.relations()
        return None if relations is None else array_of(relations)

    def holds(self) -> list[str] | None:
        return self._crew.holds()


class Trained(NamedTuple):
    uploads: dict[int, Arrays]
    refused: dict[int, str]
    sizes: dict[int, int]  # of the states that follow


@dataclass
class _Outbox:
    """A worker's end of the exchange."""

    sent: Sent
    uploads: dict[int, Arrays] = field(default_factory=dict)

    def receive(self, client: int) -> State:
        return self.sent(client)

    def deliver(self, client: int, state: State, upload: State) -> State:
        self.uploads[client] = packed(upload)
        return state
