"""The carrier to silos elsewhere: it waits for them as the run contract says, and ends a run for nobody's trouble.

    wait      every silo is waited for: a round is complete or does not happen
    quorum    who is missing is left out, as long as the answers that are needed have come

A slow silo is not a dead one: it has as much time as its own pace asks for. One whose disk is full is waited for as one
that is away: somebody there has to make room. One whose process fails is asked again, since most troubles pass; what it
cannot do five times in a row is somebody's to mend, and said with its name. That ends a run only where it cannot go on
without this silo.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from amity.errors import InputError, LostWorker, RefusedUpload
from amity.federation.carrier import Outbox
from amity.federation.encoding import decode
from amity.federation.events import Event, Listener
from amity.federation.held import Brought
from amity.federation.letters import Letters
from amity.federation.messages import (
    Answer,
    Declined,
    Done,
    Failed,
    Forgotten,
    Hello,
    Left,
    Measure,
    Measured,
    Message,
    Propose,
    Standing,
    Train,
)
from amity.federation.narrowing import Wire, widened
from amity.federation.storage import PlainStorage
from amity.federation.transport import Away, Transport

LEAST = 60.0
"""Seconds that a silo has at least for an answer, however quick it was before."""

PATIENCE = 8.0
"""A silo has as many times its slowest answer so far."""

TRIES = 5
"""The same trouble so many times in a row is one that does not pass."""

MEND = "see state/worker.log at the silo, mend it there, then submit the run under another name"

PAUSE = 2.0
"""Seconds before a silo in trouble is asked again."""


Notice = Callable[[str, type[Message], Answer | None], None]
"""Hears which silo is sent what kind of message, and then what it answers."""


class Manners(NamedTuple):
    """How missing silos are treated: part of the run contract."""

    policy: Literal["wait", "quorum"]
    turn: float  # seconds that an answer may take at most
    absence: float  # seconds that a run waits for those without whom it cannot go on
    wire: Wire = "float32"  # the type of the numbers that are sent


class Distant:
    """Silos behind a network."""

    executed: Literal["loop"] = "loop"
    door = None

    def __init__(
        self,
        names: Sequence[str],
        transport: Transport,
        manners: Manners,
        *,
        introduce: Callable[[int], Message],
        events: Listener,
        notice: Notice,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`introduce` makes the message that tells a silo the plan, for those that have not heard it yet.

        `notice` hears of each message when it is sent, and of each answer. `pause` may raise, where a run is to stop.
        """
        self.names = list(names)
        self.storage = PlainStorage()
        self._transport = transport
        self._manners = manners
        self._introduce = introduce
        self._events = events
        self._notice = notice
        self._pause = pause
        self._clock = clock
        self._agreed: set[int] = set()
        self._held: dict[str, Brought] = {}  # by silo: tensors that need not be sent again
        self._slowest: dict[tuple[int, type[Message]], float] = {}
        self._troubles: dict[int, tuple[str, int]] = {}  # the last trouble of a silo, and how often in a row

    def ask(self, messages: Outbox) -> Iterator[tuple[Sequence[int], Answer]]:
        """Carry messages and bring answers; who stays away is told as failed, or waited for."""
        began, arrived, waiting = self._clock(), 0, list(messages)
        while waiting:
            missing: dict[int, str] = {}
            awaited: set[int] = set()  # whose trouble may take somebody a while to mend
            for client, answer in self._once(messages, waiting):
                trouble = _trouble(answer, messages.kind)
                if trouble is None:
                    self._troubles.pop(client, None)
                    arrived += not isinstance(answer, Left)
                    yield (client,), answer
                else:
                    missing[client] = trouble
                    if isinstance(answer, Failed) and answer.blame in ("absent", "room"):
                        awaited.add(client)
                    self._report(messages.round, client, trouble)
            if self._manners.policy == "quorum" and arrived >= messages.needed:
                for client, words in missing.items():
                    yield (client,), Failed(messages.run, messages.round, client, "absent", words)
                return
            waiting = list(missing)
            spare = len(messages) - messages.needed if self._manners.policy == "quorum" else 0
            self._check_patience(missing, awaited, self._clock() - began, spare)
            if waiting:
                self._pause(PAUSE)

    def hurry(self) -> None:
        """Wait for nobody from now on: the run is being stopped."""
        self._manners = self._manners._replace(policy="quorum")

    def notes(self) -> list[str]:
        return []

    def _once(self, messages: Outbox, clients: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        """Ask each of these silos once; those that do not know the plan yet are told it first."""
        new = [client for client in clients if client not in self._agreed]
        there = [client for client in clients if client in self._agreed]
        for client, answer in self._carried(messages, new, self._introduce):
            if _trouble(answer, Propose) is not None or isinstance(answer, Left):
                yield client, answer
            else:
                self._agreed.add(client)
                there.append(client)
        yield from self._carried(messages, there, messages.__getitem__)

    def _carried(
        self, messages: Outbox, clients: Sequence[int], make: Callable[[int], Message]
    ) -> Iterator[tuple[int, Answer]]:
        """Carry a letter to each of these silos; one that has forgotten what its letter refers to is sent all of it."""
        run, round, wire = messages.run, messages.round, self._manners.wire
        while clients:
            at = {self.names[client]: client for client in clients}
            letters = Letters({name: make(client) for name, client in at.items()}, wire, self._held)
            kinds = {at[name]: letters.kind(name) for name in letters}
            began = self._clock()
            seconds = {name: self._time_for(at[name], kinds[at[name]]) for name in letters}
            for name in letters:
                self._notice(name, kinds[at[name]], None)
            clients = []
            for name, received in self._transport.send(letters, seconds):
                client = at[name]
                answer = widened(_read(received, kinds[client], run, round, client, letters.refers(name)), wire)
                if isinstance(answer, Forgotten):
                    letters.forgotten(name)
                    clients.append(client)
                    continue
                if isinstance(received, Away):
                    letters.lost(name)
                else:
                    messages.spared += letters.answered(name)
                    key = client, kinds[client]
                    self._slowest[key] = max(self._slowest.get(key, 0.0), self._clock() - began)
                del received
                self._notice(name, kinds[client], answer)
                yield client, answer
            if self._transport.stopped:
                raise LostWorker("the run was stopped at the server")

    def _time_for(self, client: int, kind: type[Message]) -> float:
        """Seconds that a silo has for an answer: by its own pace, once that is known."""
        slowest = self._slowest.get((client, kind))
        return self._manners.turn if slowest is None else min(self._manners.turn, max(LEAST, PATIENCE * slowest))

    def _report(self, round: int, client: int, words: str) -> None:
        """Say who is missing and why, once for each reason."""
        before, times = self._troubles.get(client, ("", 0))
        self._troubles[client] = words, times + 1 if words == before else 1
        if words != before:
            self._events(Event("waiting", round, self.names[client], words=words))

    def _check_patience(self, missing: Mapping[int, str], awaited: set[int], waited: float, spare: int) -> None:
        """Give a run up that waits for what will not come, naming who and why. `spare`: so many may be missing."""
        stuck = {client: words for client, words in missing.items() if client not in awaited}
        stuck = {client: words for client, words in stuck.items() if self._troubles[client][1] >= TRIES}
        if len(stuck) > spare:
            reasons = [f"silo {self.names[client]}: {words}" for client, words in stuck.items()]
            raise InputError(f"{'; '.join(reasons)} ({TRIES} times in a row): {MEND}")
        if missing and waited > self._manners.absence:
            told = "; ".join(f"{self.names[client]}: {words}" for client, words in missing.items())
            raise LostWorker(f"the run has waited {waited:.0f} s, which is its limit, for {told}: see to them, resume")


ABSENT = "absent: "

LONGEST = 500
"""Letters of what a silo says of its trouble, at most: it goes to the board and into the record."""


def shortened(answer: Failed | Declined) -> Failed | Declined:
    """Return an answer whose words are one line of letters that can be seen, and not too long."""
    line = " ".join(answer.words[: 2 * LONGEST].split())[:LONGEST]
    words = "".join(letter if letter.isprintable() else "?" for letter in line)
    return answer._replace(words=words)


def _trouble(answer: Answer, kind: type[Message]) -> str | None:
    """What keeps a silo from answering. An upload that is refused is an answer, and so is a score that is none: they
    harm nobody else. Anything else that does not fit is asked again."""
    if isinstance(answer, Declined):
        return f"declined: {answer.words}"
    if not isinstance(answer, Failed) or (answer.blame == "upload" and kind in (Train, Measure)):
        return None
    return answer.words


def _read(received: bytes | Away, kind: type[Message], run: str, round: int, client: int, refers: bool) -> Answer:
    """A silo's answer. One that cannot be read, is another's or answers another question is an upload that is
    refused. `refers`: whether the letter refers to tensors, so that the silo may have forgotten them."""
    if isinstance(received, Away):
        return Failed(run, round, client, "absent", ABSENT + received.words)
    try:
        answer = decode(received)
    except RefusedUpload as error:
        return Failed(run, round, client, "upload", f"upload refused: it cannot be read ({error})")
    if not isinstance(answer, Answer) or answer.silo != client:
        return Failed(run, round, client, "upload", "upload refused: it is no answer of this silo's own")
    if isinstance(answer, Failed | Declined):
        return shortened(answer)
    if isinstance(answer, Forgotten):
        return answer if refers else Failed(run, round, client, "upload", "it has forgotten what it was sent")
    if isinstance(answer, Left | Declined) or kind is Train:  # uploads are looked at where they are admitted
        return answer
    fitting = {Propose: Standing, Hello: Standing, Measure: Measured}.get(kind, Done)
    if not isinstance(answer, fitting) or answer.run != run or (answer.round != round and fitting is not Standing):
        return Failed(run, round, client, "upload", "it answers another question")
    return answer
