"""Silos that attack a federation, on the wire between an honest silo and the server.

An attacker trains as it is asked to, and sends something else. x is the model that it has trained, r the one that it
was sent; of a method that sends it none of its own, what it has sent last.

    noise      N(0, I), ten times as long as x
    flip       r - (x - r)                           its own step, backwards
    labels     x, trained on labels y -> C - 1 - y
    replay     its upload of round 1, in every round
    rider      r                                     it has done nothing
    mild       x + N(0, I), 0.3 times as long as x
    colluders  mean - 1.5 deviations of the honest uploads, in every number: all attackers send the same
               (Baruch et al., NeurIPS 2019)
    inside     r - 0.9 L d,  L the longest step that `--robust norm` would let pass,  d the direction of the
               mean honest step

and those that imitate one honest silo v, their victim, so that methods which listen to whoever is alike listen to them:

    copy       x_v                                   just what v sends
    undo       r_v - (x_v - r_v)                     v's own step, backwards, from what v was sent

All of the last four know what honest silos are sent and send in the round, which is more than a silo can know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from amity.contract import Silo, State
from amity.engines.memory import Memory, Wire, wired
from amity.federation.carrier import Outbox
from amity.federation.encoding import decode, encode
from amity.federation.messages import Answer, Train, Upload
from amity.federation.plan import Plan
from amity.federation.robust import limit
from amity.federation.silo import SiloSide
from amity.learn.streams import stream

KINDS = ("noise", "flip", "labels", "replay", "rider", "mild", "colluders", "inside")
IMITATIONS = ("copy", "undo")
ABSENT = "absent"
"""In place of a kind: attackers send nothing of use, and count as dropped."""


class Turns:
    """What all silos have been sent and have trained in a round, by silo: what the best informed attacker knows."""

    def __init__(self) -> None:
        self.sent: dict[int, State] = {}
        self.trained: dict[int, State] = {}
        self.last: dict[int, State] = {}  # what each has uploaded in the round before

    def reference(self, silo: int, key: str) -> Tensor:
        """r: what the silo was sent, or has sent last."""
        trained = self.trained[silo][key]
        sent = self.sent[silo].get(key)
        return sent if sent is not None and sent.shape == trained.shape else self.last.get(silo, {}).get(key, trained)

    def step(self, silo: int, key: str) -> Tensor:
        """x - r."""
        return self.trained[silo][key] - self.reference(silo, key)


class Attacked(Memory):
    """A federation in which some silos attack; the honest ones are asked first, so that attackers can know all."""

    def __init__(
        self, plan: Plan, silos: Mapping[int, Silo], attackers: Sequence[int], kind: str, victim: int = 0
    ) -> None:
        self._victim = victim  # of those that imitate one; the honest silos are asked first, and so is it
        self._bad = tuple(attackers)
        self._honest = tuple(sorted(set(silos).difference(attackers)))
        self._kind = kind
        self._turns = Turns()
        self._first: dict[int, State] = {}
        sides = {
            client: SiloSide(plan, client, mislabelled(silo, plan.task.classes) if self._lies(client) else silo)
            for client, silo in silos.items()
        }
        super().__init__(plan, wires={client: self._wire(client, wired(side)) for client, side in sides.items()})

    def ask(self, messages: Outbox) -> Iterator[tuple[Sequence[int], Answer]]:
        yield from super().ask(messages.without(self._bad))
        yield from super().ask(messages.without(self._honest))

    def _lies(self, client: int) -> bool:
        return self._kind == "labels" and client in self._bad

    def _wire(self, client: int, honest: Wire) -> Wire:
        def ask(content: bytes) -> bytes:
            message, received = decode(content), honest(content)
            answer = decode(received)
            if not isinstance(message, Train) or not isinstance(answer, Upload):
                return received
            before = self._turns.trained.get(client)
            if before is not None:
                self._turns.last[client] = before
            self._turns.sent[client], self._turns.trained[client] = message.down, answer.values
            if client not in self._bad:
                return received
            return encode(answer._replace(values={**answer.values, **self._made_up(client, message.round)}))

        return ask

    def _made_up(self, client: int, round: int) -> State:
        trained = self._turns.trained[client]
        vectors = {key: x for key, x in trained.items() if x.is_floating_point() and x.dim() and x.numel()}
        if self._kind == ABSENT:
            return {key: torch.full_like(x, torch.nan) for key, x in vectors.items()}
        if self._kind == "replay":
            return self._first.setdefault(client, vectors)
        if self._kind == "labels":
            return {}
        if self._kind == "copy":
            return {key: self._turns.trained[self._victim][key].clone() for key in vectors}
        if self._kind == "undo":
            return {key: _flip(self._turns, self._victim, (), key, round).to(x) for key, x in vectors.items()}
        make = _MADE_UP[self._kind]
        return {key: make(self._turns, client, self._honest, key, round).to(x) for key, x in vectors.items()}


def mislabelled(silo: Silo, classes: int) -> Silo:
    """The silo with its training labels turned round."""
    return silo._replace(train=silo.train._replace(y=classes - 1 - silo.train.y))


Makes = Callable[[Turns, int, Sequence[int], str, int], Tensor]


def _noise(turns: Turns, me: int, honest: Sequence[int], key: str, round: int) -> Tensor:
    return _random(turns.trained[me][key], me, round) * 10


def _flip(turns: Turns, me: int, honest: Sequence[int], key: str, round: int) -> Tensor:
    return turns.reference(me, key) - turns.step(me, key)


def _rider(turns: Turns, me: int, honest: Sequence[int], key: str, round: int) -> Tensor:
    return turns.reference(me, key)


def _mild(turns: Turns, me: int, honest: Sequence[int], key: str, round: int) -> Tensor:
    return turns.trained[me][key] + 0.3 * _random(turns.trained[me][key], me, round)


def _colluders(turns: Turns, me: int, honest: Sequence[int], key: str, round: int) -> Tensor:
    models = torch.stack([turns.trained[silo][key] for silo in honest]).double()
    return models.mean(0) - 1.5 * models.std(0)


def _inside(turns: Turns, me: int, honest: Sequence[int], key: str, round: int) -> Tensor:
    steps = [turns.step(silo, key).double() for silo in honest]
    lengths = [float(step.norm()) for step in steps if step.any()]
    if not lengths:
        return turns.trained[me][key]
    direction = torch.stack(steps).mean(0)
    return turns.reference(me, key) - direction * (0.9 * limit(lengths) / float(direction.norm()))


def _random(like: Tensor, me: int, round: int) -> Tensor:
    """A random vector as long as this one."""
    drawn = torch.randn(like.shape, generator=stream(0, "attack", me, round), dtype=torch.float64)
    return drawn * float(like.double().norm() / drawn.norm())


_MADE_UP: Mapping[str, Makes] = {
    "noise": _noise,
    "flip": _flip,
    "rider": _rider,
    "mild": _mild,
    "colluders": _colluders,
    "inside": _inside,
}
