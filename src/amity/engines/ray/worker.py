"""A worker of the Ray engine: what runs in its process. It hosts some silos and carries out what messages ask for."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from amity.contract import State
from amity.engines.ray.arrays import Arrays, array_of, copied, joined, packed, unpacked_silo
from amity.federation.admission import Admission
from amity.federation.carrier import Outbox
from amity.federation.hosting import Hosting
from amity.federation.messages import Answer, Ask, Failed, Keep, Measure, Message, Told, Train, Upload
from amity.federation.plan import Plan
from amity.federation.silo import SiloSide

SENDABLE = Admission(None)  # that it can be sent: what it must be, the server knows


class Worker:
    """Some silos, in a process of their own."""

    def __init__(self) -> None:
        torch.set_num_threads(1)

    def set_up(self, recipe: bytes, data: Mapping[int, Any]) -> str:
        """Take the plan and the data; what comes back is the machine that this is."""
        plan: Plan = pickle.loads(recipe)
        self._silos = {client: SiloSide(plan, client, unpacked_silo(parts)) for client, parts in sorted(data.items())}
        self._door = Hosting(plan.method, self._silos)
        node: str = importlib.import_module("ray").get_runtime_context().get_node_id()
        return node

    def restore(self, round: int, states: Mapping[int, Arrays]) -> None:
        """Put silos back into states that they had after a round."""
        for client, arrays in states.items():
            self._silos[client].begin(_own(arrays), round)

    def restore_kept(self, states: Mapping[int, Arrays]) -> None:
        """Put back the states of the round to be delivered."""
        for client, arrays in states.items():
            kept = self._silos[client].kept
            assert kept is not None
            self._silos[client].kept = kept._replace(state=_own(arrays))

    def ask(
        self, blank: Sequence[Message], shared: Any, each: Arrays | None
    ) -> list[tuple[int, Answer, Arrays | None]]:
        """Answers to messages whose downloads come apart; the values of uploads are arrays beside them."""
        clients = [message.silo for message in blank]
        down = None if each is None else joined(shared, each, len(clients))
        parts = dict(zip(clients, blank, strict=True))
        sent = Outbox(type(blank[0]), *blank[0][:2], clients, lambda client, own: _filled(parts[client], own), down)
        return [self._answer(client, sent[client]) for client in clients]

    def _answer(self, client: int, message: Message) -> tuple[int, Answer, Arrays | None]:
        answer = self._silos[client].answer(message)
        if not isinstance(answer, Upload | Told):
            return client, answer, None
        refused = SENDABLE.refused(answer.values)
        if refused is not None:
            return client, Failed(*message[:3], "upload", refused), None
        return client, answer._replace(values={}), packed(answer.values)

    def states(self) -> list[Arrays]:
        """Every silo's committed state."""
        return [packed(state) for state in self._door.states()]

    def kept_states(self) -> list[Arrays]:
        """The states of the round to be delivered."""
        return [packed(state) for state in self._door.kept_states()]

    def delivered(self) -> list[Arrays]:
        """Every silo's personal model of the round to be delivered."""
        return [packed(model) for model in self._door.delivered()]

    def predictions(self) -> list[Any]:
        """Each silo's last evaluation, by test example."""
        return [array_of(each) for each in self._door.predictions()]

    def relations(self) -> list[Any] | None:
        """The weights that silos themselves give each other."""
        relations = self._door.relations()
        return None if relations is None else [array_of(row) for row in relations]

    def holds(self) -> list[str]:
        """Which model each silo has chosen to hold; nothing where it says so."""
        return self._door.holds() or [""] * len(self._silos)


def _filled(message: Message, down: State | None) -> Message:
    """The message with its download."""
    if not isinstance(message, Train | Ask | Measure | Keep) or down is None:
        return message
    return message._replace(down=down)


def _own(arrays: Arrays) -> State:
    return {key: copied(value) for key, value in arrays.items()}
