"""The door to silos that Ray's workers host: what the record of a simulation reads of them is fetched from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from amity.contract import Choosing, Model, Relational, State
from amity.engines.ray.arrays import copied, size_of

if TYPE_CHECKING:
    from amity.engines.ray.hosts import Workers


class RayDoor:
    """Silos that are hosted by workers."""

    at_hand = False

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def states(self) -> list[State]:
        return [_tensors(arrays) for arrays in self._read("states")]

    def kept_states(self) -> list[State]:
        return [_tensors(arrays) for arrays in self._read("kept_states")]

    def restore(self, states: Sequence[State], round: int) -> None:
        self._workers.give("restore", (round,), states)

    def restore_kept(self, states: Sequence[State]) -> None:
        self._workers.give("restore_kept", (), states)

    def predictions(self) -> list[Tensor]:
        return [copied(each) for each in self._told("predictions")]

    def relations(self) -> Tensor | None:
        if not isinstance(self._workers.plan.method, Relational):
            return None
        return torch.stack([copied(row) for row in self._told("relations")])

    def holds(self) -> list[str] | None:
        words = self._told("holds") if isinstance(self._workers.plan.method, Choosing) else []
        return words if any(words) else None

    def delivered(self) -> list[Model]:
        return [_tensors(arrays) for arrays in self._read("delivered")]

    def _read(self, what: str) -> list[Any]:
        """States of all silos, which count as such in the traffic."""
        found = self._told(what)
        self._workers.traffic.states += sum(map(size_of, found))
        return found

    def _told(self, what: str) -> list[Any]:
        """What every silo's worker knows about it."""
        from amity.engines.ray.hosts import Call

        workers = self._workers
        answers = workers.gather((at, Call(what)) for at in range(len(workers.hosts)))
        told = {c: fact for at, facts in answers for c, fact in zip(workers.hosts[at].clients, facts, strict=True)}
        return [told[client] for client in sorted(told)]


def _tensors(arrays: Any) -> State:
    return {key: copied(value) for key, value in arrays.items()}
