"""The carrier that proves the boundary: one process, but every message really travels as encoded bytes.

What a silo gets is decoded from bytes, and so is what the server gets: whatever is not in a message cannot have
crossed. All laws run over this carrier and over the local one, with equal models bit for bit, so that an engine over a
network has nothing new to prove about methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Literal, Protocol, Self

from amity.contract import Model, Silo
from amity.errors import InputError, RefusedUpload
from amity.federation.carrier import Outbox
from amity.federation.encoding import Look, Unheld, decode, encode
from amity.federation.hosting import Hosting
from amity.federation.messages import Answer, Failed, Forgotten, Message
from amity.federation.plan import Plan
from amity.federation.silo import SiloSide
from amity.federation.storage import PlainStorage
from amity.learn.threads import one_thread

Wire = Callable[[bytes], bytes]
"""Takes a message to a silo, and brings its answer."""


class Memory:
    """Silos behind wires. Without any, they are hosted here."""

    executed: Literal["loop"] = "loop"

    def __init__(self, plan: Plan, silos: Mapping[int, Silo] | None = None, wires: Mapping[int, Wire] | None = None):
        self.plan = plan
        self.storage = PlainStorage()
        self.silos = {client: SiloSide(plan, client, silo) for client, silo in (silos or {}).items()}
        self._wires = {client: wired(silo) for client, silo in self.silos.items()} if wires is None else dict(wires)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    @property
    def door(self) -> Hosting | None:
        return Hosting(self.plan.method, self.silos, self.delivered) if self.silos else None

    def ask(self, messages: Outbox) -> Iterator[tuple[Sequence[int], Answer]]:
        for client in messages:
            content = encode(messages[client])
            with one_thread():  # not while somebody else is at work with the answer
                received = self._wires[client](content)
            yield (client,), self._read(received, client, messages.round)

    def delivered(self) -> list[Model]:
        """Every silo's personal model of the round that it was told to keep."""
        with one_thread():
            return [self.silos[client].delivered() for client in sorted(self.silos)]

    def _read(self, received: bytes, client: int, round: int) -> Answer:
        """A silo's answer. One that cannot be read harms nobody but the silo: it is an upload that is refused."""
        try:
            answer = decode(received)
        except RefusedUpload as error:
            return Failed(self.plan.run, round, client, "upload", f"upload refused: it cannot be read ({error})")
        if not isinstance(answer, Answer) or answer.silo != client:
            raise InputError(f"silo {client} has sent what is no answer of its own: look at who sends it")
        return answer

    def host(self, plan: Plan, client: int, silo: Silo) -> None:
        """Host a silo that has joined, whom everybody now plans with."""
        self.plan = plan
        self.silos[client] = SiloSide(plan, client, silo)
        self._wires[client] = wired(self.silos[client])

    def notes(self) -> list[str]:
        return []


def wired(silo: SiloSide) -> Wire:
    """A wire to a silo in this process."""
    return lambda content: answered(silo, content)


class Answers(Protocol):
    """Whoever answers messages, and raises nothing."""

    def safely(self, message: Message) -> Answer: ...


def answered(silo: Answers, content: bytes, held: Look = lambda letter: None) -> bytes:
    """The bytes of a silo's answer to the bytes of a message, whatever these are. `held`: finds tensors that it has."""
    try:
        message = decode(content, held)
    except Unheld as error:
        return encode(Forgotten(*error.head))
    except RefusedUpload as error:
        return encode(Failed("", 0, 0, "input", str(error)))
    if not isinstance(message, Message):
        return encode(Failed(*message[:3], "input", "what was sent is no message to a silo: look at who sends it"))
    answer = silo.safely(message)
    try:
        return encode(answer)
    except (TypeError, ValueError, AttributeError) as error:
        reason = str(error).partition("\n")[0]
        return encode(Failed(*message[:3], "upload", f"upload refused: it cannot be sent ({reason})"))
