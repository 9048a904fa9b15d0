"""The server's contact with silos: it hands on what they answer, and remembers who was away and who has left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from amity.contract import nbytes
from amity.errors import InputError
from amity.federation.admission import Admission, admit
from amity.federation.carrier import Carrier, Outbox
from amity.federation.events import Event, Listener, What, silent
from amity.federation.messages import Answer, Failed, Left, Measured, Standing, Upload, absent
from amity.federation.participation import Lot
from amity.federation.reports import Settled
from amity.federation.robust import Guard
from amity.federation.scores import impossible
from amity.metric import Metric

STEPS = 20  # events about evaluation in a round, at most


class Contact:
    """Silos as they can be reached by a carrier."""

    def __init__(self, carrier: Carrier, names: Sequence[str], events: Listener, left: frozenset[int]) -> None:
        self._carrier = carrier
        self.names = list(names)
        self._events = None if events is silent else events
        self.left = set(left)
        self.behind: set[int] = set()  # silos that were away when they were told something
        self.aside: dict[int, str] = {}  # silos that are there, but stand elsewhere than the server knows, and why

    def answers(self, messages: Outbox) -> Iterator[tuple[Sequence[int], Answer]]:
        """Answers as they come; what went wrong at a silo goes wrong here, unless the carrier takes it for absent."""
        for clients, answer in self._carrier.ask(messages):
            if isinstance(answer, Failed) and answer.blame == "absent":
                self.behind.add(clients[0])
            elif isinstance(answer, Failed) and answer.blame != "upload":
                if answer.blame in ("input", "room"):
                    raise InputError(answer.words)
                raise RuntimeError(f"silo {self.names[clients[0]]}: {answer.words}")
            elif isinstance(answer, Left):
                self.left.add(clients[0])
                self.tell(Event("left", messages.round, self.names[clients[0]]))
            yield clients, answer

    def told(self, messages: Outbox) -> None:
        """Tell silos something; those that are away are behind from now on."""
        for _ in self.answers(messages):
            pass

    def collect(
        self, messages: Outbox, lot: Lot, admission: Admission, shelf: Guard
    ) -> tuple[dict[int, str], dict[int, str]]:
        """Ask, and put every upload that is admitted on the shelf, which then looks at all of them together.

        What comes back is whose was refused, and who is missing, each with the reason.
        """
        refused: dict[int, str] = {}
        missing: dict[int, str] = {}
        done = 0
        for clients, answer in self.answers(messages):
            done += len(clients)
            if isinstance(answer, Left) or (isinstance(answer, Failed) and answer.blame == "absent"):
                missing[clients[0]] = "it has left" if isinstance(answer, Left) else answer.words
                continue
            found = admit(admission, clients, answer, messages, lot.lost, shelf)
            refused |= found
            self.tell_trained(messages.round, clients, answer, found, done, len(messages))
        unlike = shelf.refused()
        self.tell_about("refused", messages.round, unlike)
        return refused | unlike, missing

    def scores(self, messages: Outbox, main: Metric) -> dict[int, Measured]:
        """What silos say of their models. A silo that says nothing of use has a line of one that is not there.

        `main`: the metric of the main score.
        """
        number, total = messages.round, len(messages)
        scores: dict[int, Measured] = {}
        step = max(1, total // STEPS)
        for (client,), answer in self.answers(messages):
            wrong = _no_score(answer, main)
            scores[client] = (
                answer if isinstance(answer, Measured) and not wrong else absent(messages.run, number, client)
            )
            if wrong:  # its models are its own affair: nobody else is kept from going on
                self.tell(Event("refused", number, self.names[client], words=wrong))
            if len(scores) % step == 0 or len(scores) == total:
                self.tell(Event("measured", number, done=len(scores), total=total))
        return scores

    def met(self, client: int, number: int, why: str | None) -> None:
        """Note a silo that has said where it stands: it goes on with the others, or `why` says why it cannot."""
        if why is None:
            self.behind.discard(client)
            self.aside.pop(client, None)
        elif self.aside.get(client) != why:
            self.aside[client] = why
            self.tell(Event("aside", number, self.names[client], words=why))

    def hoped_for(self, asked: Sequence[int], needed: int) -> list[int]:
        """Silos that are behind and may come back. Raises InputError where a round would never have those it needs."""
        hoped = [client for client in asked if client in self.behind and client not in self.aside]
        if len(self.near(asked)) + len(hoped) < needed:
            reasons = "; ".join(why for client, why in self.aside.items() if client in asked)
            raise InputError(f"a round needs {needed} silos, and too few can go on: {reasons}")
        return hoped

    def near(self, clients: Sequence[int]) -> list[int]:
        """Those of these silos that have neither left nor fallen behind."""
        return [client for client in clients if client not in self.behind and client not in self.left]

    def tell(self, event: Event) -> None:
        """Hand an event to whoever listens."""
        if self._events is not None:
            self._events(event)

    def tell_about(self, what: What, number: int, reasons: Mapping[int, str]) -> None:
        """Tell of silos that are dropped or refused, each with the reason."""
        for client, why in reasons.items():
            self.tell(Event(what, number, self.names[client], words=why))

    def tell_trained(
        self, number: int, clients: Sequence[int], answer: Answer, refused: Mapping[int, str], done: int, total: int
    ) -> None:
        """Tell of silos that have answered, and of those whose uploads are refused."""
        if self._events is None:
            return
        self.tell_about("refused", number, refused)
        one = self.names[clients[0]] if len(clients) == 1 else None
        size = nbytes(answer.values) if isinstance(answer, Upload) and not refused else None
        seconds = answer.seconds if isinstance(answer, Upload) else None
        self.tell(Event("trained", number, one, size, seconds, done=done, total=total))


def _no_score(answer: Answer, main: Metric) -> str | None:
    """Return what keeps an answer from being a score; nothing is said of a silo that has left."""
    if isinstance(answer, Measured):
        found = impossible(answer, main)
        return None if found is None else f"score refused: {found}"
    if isinstance(answer, Left):
        return None
    return answer.words if isinstance(answer, Failed) else "it answers another question"


def misplaced(name: str, answer: Answer, layout: str, asked: Settled | None) -> str | None:
    """Return why the run cannot go on with a silo: it stands elsewhere than the server knows. `asked`: its last turn
    there."""
    if not isinstance(answer, Standing):
        return f"silo {name} does not say where it stands: look at its version"
    if answer.layout != layout:
        return f"silo {name} has come to another plan: look at its version and its model"
    if asked is None or asked.verdict == "lost":  # it may never have heard of that round
        return None
    if answer.round < asked.round and answer.pending != asked.round:
        return (
            f"silo {name} stands at round {answer.round}, but has sent an upload in round {asked.round}: "
            "bring back its state folder, or begin the run anew"
        )
    return None
