"""What an engine is: a carrier of messages between the two sides. Nothing else is needed to be one.

A carrier takes messages to silos and brings their answers back, in any order. It may do so by calling them (local), as
bytes inside one process (memory), over a cluster (ray) or over a network. It never looks into a method.

A carrier that hosts its silos itself has a door besides (`Door`), through which a simulation's recorder reads what
would otherwise never leave a silo. A network engine has none.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

from torch import Tensor

from amity.contract import Download, Model, State
from amity.federation.messages import Answer, Ask, Commit, Finish, Hello, Joined, Keep, Measure, Message, Train, Verdict
from amity.federation.plan import Member
from amity.federation.reports import Settled
from amity.federation.storage import Storage


class Outbox(Mapping[int, Message]):
    """Messages to several silos, each made when it is taken out: what is forwarded to many is never copied for all."""

    def __init__(
        self,
        kind: type[Message],
        run: str,
        round: int,
        who: Sequence[int],
        make: Callable[[int, State | None], Message],
        down: Download | None,
        needed: int = 0,
    ) -> None:
        self.kind = kind
        self.run = run
        self.round = round
        self.places = {client: place for place, client in enumerate(who)}
        self.down = down  # what they are sent, as the method made it
        self.needed = needed  # answers that the server cannot go on without, where some silos may be missing
        self.make = make
        self.spared = 0  # bytes of it that a carrier did not send, as silos had them: it counts them here

    def __getitem__(self, client: int) -> Message:
        place = self.places[client]
        return self.make(client, None if self.down is None else self.down.to(place))

    def __iter__(self) -> Iterator[int]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def without(self, clients: Container[int]) -> Outbox:
        """The same messages, but for those to some silos; the others keep their places."""
        fewer = Outbox(self.kind, self.run, self.round, (), self.make, self.down, self.needed)
        fewer.places = {client: place for client, place in self.places.items() if client not in clients}
        return fewer

    def to(self, client: int) -> State | None:
        """What this silo is sent."""
        return None if self.down is None else self.down.to(self.places[client])


def hello(run: str, round: int, who: Sequence[int], settled: Mapping[int, Settled], needed: int = 0) -> Outbox:
    """Messages that greet these silos: where the server stands, and what became of their last uploads."""

    def greeting(client: int, sent: State | None) -> Hello:
        last = settled.get(client)
        return Hello(run, round, client) if last is None else Hello(run, round, client, last.round, last.verdict)

    return Outbox(Hello, run, round, who, greeting, None, needed)


def train(run: str, round: int, who: Sequence[int], down: Download, needed: int = 0) -> Outbox:
    """Messages that ask these silos to take their turns."""
    return Outbox(Train, run, round, who, lambda client, sent: Train(run, round, client, sent or {}), down, needed)


def question(run: str, round: int, who: Sequence[int], down: Download) -> Outbox:
    """Messages that bring these silos a question of their method."""
    return Outbox(Ask, run, round, who, lambda client, sent: Ask(run, round, client, sent or {}), down, len(who))


def measure(run: str, round: int, who: Sequence[int], down: Download | None) -> Outbox:
    """Messages that ask these silos to evaluate their models."""
    return Outbox(Measure, run, round, who, lambda client, sent: Measure(run, round, client, sent), down)


def keep(run: str, round: int, who: Sequence[int], down: Download | None) -> Outbox:
    """Messages that tell these silos to keep their models."""
    return Outbox(Keep, run, round, who, lambda client, sent: Keep(run, round, client, sent), down)


def commit(run: str, round: int, verdicts: Mapping[int, Verdict]) -> Outbox:
    """Messages that tell silos what became of their uploads."""
    return Outbox(
        Commit, run, round, sorted(verdicts), lambda client, sent: Commit(run, round, client, verdicts[client]), None
    )


def joined(run: str, round: int, who: Sequence[int], member: Member) -> Outbox:
    """Messages that tell silos of one more."""
    told = member.name, member.size, member.group
    return Outbox(Joined, run, round, who, lambda client, sent: Joined(run, round, client, *told), None)


def finish(run: str, round: int, who: Sequence[int]) -> Outbox:
    """Messages that tell silos that the run is over."""
    return Outbox(Finish, run, round, who, lambda client, sent: Finish(run, round, client), None)


@runtime_checkable
class Door(Protocol):
    """What a carrier that hosts its silos shows of them: for the record of a simulation, and for its checkpoints."""

    @property
    def at_hand(self) -> bool:
        """Whether states lie in this process, so that reading them costs nothing."""

    def states(self) -> Sequence[State]:
        """Every silo's committed state; later rounds do not change what is returned."""

    def kept_states(self) -> Sequence[State]:
        """The states of the round to be delivered."""

    def restore(self, states: Sequence[State], round: int) -> None:
        """Put every silo back into the state that it had after this round."""

    def restore_kept(self, states: Sequence[State]) -> None:
        """Put back the states of the round to be delivered, after the silos were told to keep it."""

    def predictions(self) -> list[Tensor]:
        """Each silo's last evaluation, by test example: right or wrong, or the error of a quantity."""

    def relations(self) -> Tensor | None:
        """The weights that silos themselves give each other, where the method has such.  # [m, m]"""

    def holds(self) -> list[str] | None:
        """Which model each silo has chosen to hold, where the method lets it choose."""

    def delivered(self) -> list[Model]:
        """Every silo's personal model of the round that it was told to keep."""


class Carrier(Protocol):
    """An engine, as the server sees it."""

    @property
    def executed(self) -> Literal["loop", "stacked"]:
        """How the last turns were taken: one silo after the other, or as rows of one matrix."""

    @property
    def door(self) -> Door | None:
        """The door to silos that are hosted here; None where they are elsewhere."""

    @property
    def storage(self) -> Storage:
        """Where the server's matrices and the uploads lie."""

    def ask(self, messages: Outbox) -> Iterator[tuple[Sequence[int], Answer]]:
        """Carry each message to its silo and bring the answers, as they come.

        One answer may speak for several silos that are hosted together: their uploads are then rows.
        """

    def notes(self) -> list[str]:
        """Remarks for the record of this round, each once."""
