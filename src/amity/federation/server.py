"""The server's side: it asks, admits, aggregates and reports. It sees uploads and a few numbers, never data or states.

    draw who is asked -> download -> ask -> admit uploads -> aggregate -> save -> tell each silo -> measure -> report

A silo learns what became of its upload only after the server has made its new state, and has saved it where it saves.
The silos' side is not known here, and this one is not known there: they share `messages.py` and the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import torch
from torch import Generator, Tensor

from amity.contract import Clouded, Download, InputError, Method, Model, State, nbytes
from amity.federation import carrier as asks
from amity.federation.admission import Admission, advice, expected
from amity.federation.carrier import Carrier, Outbox
from amity.federation.events import Event, Listener, silent
from amity.federation.membership import grow_server, with_member
from amity.federation.messages import Answer, Failed, Measured, Standing, Upload, Verdict, absent
from amity.federation.participation import Lot, draw, epochs_of
from amity.federation.plan import Member, Plan, layout_of
from amity.federation.reports import Progress, Round, Settled, Watch, sent_bytes, weights_of
from amity.federation.storage import Shelf
from amity.free_memory import in_one_line
from amity.learn.streams import stream

Clouds = Literal["none", "last", "evaluated"]
"""Rounds in which the cloud models that silos were sent are reported: none, the last, or all that are evaluated."""

MOST_CLOUDS = 2**30  # bytes of cloud models that are kept beside all that a round needs

STEPS = 20  # events about evaluation in a round, at most


class ServerSide:
    """The server of one run. `rounds` runs those that are left; `keep` makes the last one the one to deliver."""

    def __init__(
        self,
        plan: Plan,
        carrier: Carrier,
        *,
        start: Progress | None = None,
        names: Sequence[str] | None = None,
        events: Listener = silent,
        evaluate_every: int = 1,
        clouds: Clouds = "none",
        save: Callable[[Progress], None] | None = None,
    ) -> None:
        """`start` continues from a saved state. `evaluate_every`: rounds between evaluations; the last round always has
        one. `save` is called with the new state before any silo is told what became of its upload."""
        self.plan = plan
        self.carrier = carrier
        self._names = [str(client) for client in range(plan.fed.clients)] if names is None else list(names)
        self._events = None if events is silent else events
        self._every = evaluate_every
        self._clouds = clouds
        self._save = save
        with in_one_line():
            first = plan.method.init_server(plan.task, plan.fed) if start is None else start.server
            server = carrier.storage.house(first)
        self.progress = Progress(0, server) if start is None else start._replace(server=server)

    def rounds(self) -> Iterator[Round]:
        """Run the rounds that are left, reporting after each."""
        total = self.plan.fed.rounds
        while self.progress.round < total:
            number = self.progress.round + 1
            due = number % self._every == 0 or number == total
            clouds = due and (self._clouds == "evaluated" or (self._clouds == "last" and number == total))
            with in_one_line():
                report = self._round(number, evaluated=due, clouds=clouds)
            yield report
            del report  # or the states before this round would stay alive through the next

    def meet(self) -> None:
        """Greet silos that keep their own states, and settle with each of them what became of its last upload."""
        run, number = self.plan.run, self.progress.round
        hellos = asks.hello(run, number, self.here, self.progress.settled)
        for (client,), answer in self._answers(hellos):
            name, asked = self._names[client], self.progress.settled.get(client)
            if not isinstance(answer, Standing):
                raise InputError(f"silo {name} does not say where it stands: look at its version")
            if answer.layout != layout_of(self.plan):
                raise InputError(f"silo {name} has come to another plan: look at its version and its model")
            if asked is not None and answer.round < asked.round and answer.pending != asked.round:
                raise InputError(
                    f"silo {name} stands at round {answer.round}, but has sent an upload in round {asked.round}: "
                    "bring back its state folder, or begin the run anew"
                )

    def keep(self, progress: Progress | None = None) -> None:
        """Tell every silo to keep its personal model of the last round, or of the round of a saved progress."""
        self._keep(progress or self.progress, self.here)

    def _keep(self, progress: Progress, who: Sequence[int]) -> None:
        down = self._sent_after(progress, who)
        list(self._answers(asks.keep(self.plan.run, progress.round, who, down)))

    def join(self, member: Member) -> int:
        """Take one more silo in, between two rounds. Its number comes back; whoever hosts it begins it with `plan`."""
        method, task, before, *_ = self.plan
        if member.name in self._names:
            raise InputError(f"a silo that joins needs a name of its own, got {member.name!r} again: rename it")
        after = with_member(before, member)
        grown = grow_server(method, task, before, after, self.progress.server)
        list(self._answers(asks.joined(self.plan.run, self.progress.round, self.here, member)))
        self.plan = self.plan._replace(fed=after)
        self._names.append(member.name)
        self.carrier.storage.grow(after.clients)
        self.progress = self.progress._replace(server=self.carrier.storage.house(grown))
        self._tell(Event("joined", self.progress.round, member.name))
        return before.clients

    def leave(self, client: int) -> None:
        """Let a silo go, with the personal model that it has now. It is never asked again."""
        if client not in self.here or len(self.here) == 1:
            raise InputError(f"a silo that leaves needs to be there, with another one, got {client}: see who is")
        self._keep(self.progress, [client])
        self.progress = self.progress._replace(left=self.progress.left | {client})
        self._tell(Event("left", self.progress.round, self._names[client]))

    @property
    def here(self) -> list[int]:
        """The silos that have not left."""
        return [client for client in range(self.plan.fed.clients) if client not in self.progress.left]

    def _round(self, number: int, *, evaluated: bool, clouds: bool) -> Round:
        plan, carrier, watch = self.plan, self.carrier, Watch()
        method, task, fed, solver, rule, _ = plan
        server = self.progress.server
        lot = draw(rule, fed, number, self.progress.left)
        asked = lot.asked.tolist()
        down = self._download(server, lot.asked, number)
        down_bytes = sent_bytes(down, len(asked))
        kept, too_large = _clouds(method, asked, down) if clouds else (None, [])  # now: uploads take their place
        watch.lap("download")

        shelf = carrier.storage.shelf(down, server, asked)
        admission = Admission(expected(method, task, fed, solver, down, lot.asked, number))
        messages = asks.train(plan.run, number, asked, down)
        self._tell(Event("round", number, total=len(asked)))  # now: what is refused before leaves nothing behind
        refused = self._collect(messages, lot, admission, shelf, number)
        watch.lap("train")

        accepted = [place for place, client in enumerate(asked) if client not in refused and client not in lot.lost]
        clients = [asked[place] for place in accepted]
        up_bytes = 0
        if accepted:
            uploads = shelf.rows(accepted)
            up_bytes = nbytes(uploads)
            with shelf.aggregating():
                server = method.aggregate(server, torch.tensor(clients), uploads, number)
            del uploads
        self._settle(number, server, asked, lot, refused)
        shelf.settle(server, accepted, clients)
        watch.lap("aggregate")
        self._tell(Event("aggregated", number, seconds=watch.laps["aggregate"], total=len(accepted)))

        scores, eval_bytes = self._measure(number) if evaluated else (None, 0)
        watch.lap("evaluate")
        door = carrier.door
        return Round(
            round=number,
            scores=scores,
            took_part=clients,
            dropped={**lot.dropped, **refused},
            epochs={i: epochs_of(rule, fed, i, number) for i in asked},
            bytes_up=up_bytes,
            bytes_down=down_bytes,
            bytes_eval=eval_bytes,
            seconds=watch.laps,
            weights=weights_of(down, lot.asked, None if door is None else door.relations(), fed.clients),
            progress=self.progress,
            warnings=[*down.notes, *too_large, *carrier.notes(), *map(advice, sorted(set(refused.values())))],
            holds=None if door is None else door.holds(),
            executed=carrier.executed,
            clouds=kept,
        )

    def _collect(self, messages: Outbox, lot: Lot, admission: Admission, shelf: Shelf, number: int) -> dict[int, str]:
        """Ask, and put every upload that is admitted on the shelf. What comes back is whose was refused, and why."""
        refused: dict[int, str] = {}
        done = 0
        for clients, answer in self._answers(messages):
            done += len(clients)
            found = self._admitted(clients, answer, lot, admission, shelf, messages)
            refused |= found
            self._tell_trained(number, clients, answer, found, done, len(messages))
        return refused

    def _admitted(
        self,
        clients: Sequence[int],
        answer: Answer,
        lot: Lot,
        admission: Admission,
        shelf: Shelf,
        messages: Outbox,
    ) -> dict[int, str]:
        """Let uploads in, or say why not. This is the one place, for every engine."""
        if isinstance(answer, Failed):  # an upload that cannot even be sent
            return dict.fromkeys(clients, answer.words)
        if not isinstance(answer, Upload) or answer.run != self.plan.run or answer.round != messages.round:
            return dict.fromkeys(clients, "upload refused: it answers another question")
        if len(clients) == 1:
            wrong = admission.refused(answer.values)
            found = {} if wrong is None else {0: wrong}
            rows = {} if found else {key: value[None] for key, value in answer.values.items()}
        else:
            found, rows = admission.refused_rows(answer.values, len(clients)), answer.values
        there = [at for at, client in enumerate(clients) if at not in found and client not in lot.lost]
        if len(there) == len(clients):
            shelf.put([messages.places[client] for client in clients], clients, rows)
        elif there:
            some = {key: value[there] for key, value in rows.items()}
            shelf.put([messages.places[clients[at]] for at in there], [clients[at] for at in there], some)
        return {clients[at]: why for at, why in found.items()}

    def _settle(self, number: int, server: State, asked: Sequence[int], lot: Lot, refused: dict[int, str]) -> None:
        """Save the new state, then tell each silo that was asked what became of its upload."""
        verdicts: dict[int, Verdict] = {
            client: "refused" if client in refused else "lost" if client in lot.lost else "accepted" for client in asked
        }
        told = {client: Settled(number, verdict) for client, verdict in verdicts.items()}
        self.progress = Progress(number, server, {**self.progress.settled, **told}, self.progress.left)
        if self._save is not None:
            self._save(self.progress)
        for client, why in lot.dropped.items():
            self._tell(Event("dropped", number, self._names[client], words=why))
        list(self._answers(asks.commit(self.plan.run, number, verdicts)))

    def _measure(self, number: int) -> tuple[list[Measured], int]:
        """Every silo's own account of its personal model after this round, and what it took to ask."""
        run, here = self.plan.run, self.here
        down = self._sent_after(self.progress, here)
        scores: dict[int, Measured] = {}
        step = max(1, len(here) // STEPS)
        for (client,), answer in self._answers(asks.measure(run, number, here, down)):
            scores[client] = answer if isinstance(answer, Measured) else absent(run, number, client)
            if scores[client] is not answer:  # its models are its own affair: nobody else is kept from going on
                self._tell(Event("refused", number, self._names[client], words="it answers another question"))
            if len(scores) % step == 0 or len(scores) == len(here):
                self._tell(Event("measured", number, done=len(scores), total=len(here)))
        scores |= {client: absent(run, number, client) for client in self.progress.left}
        return [scores[client] for client in sorted(scores)], 0 if down is None else sent_bytes(down, len(here))

    def _sent_after(self, progress: Progress, who: Sequence[int]) -> Download | None:
        """What silos are sent to evaluate after a round, for methods that ask for it."""
        if self.plan.method.evaluates != "server":
            return None
        return self._download(progress.server, torch.tensor(who), progress.round + 1)

    def _download(self, server: State, who: Tensor, round: int) -> Download:
        def rng(role: str, key: int) -> Generator:
            return stream(self.plan.fed.seed, role, key, round)

        with self.carrier.storage.sending():
            return self.plan.method.download(server, who, round, rng)

    def _answers(self, messages: Outbox) -> Iterator[tuple[Sequence[int], Answer]]:
        """Answers as they come; what went wrong at a silo goes wrong here."""
        for clients, answer in self.carrier.ask(messages):
            if isinstance(answer, Failed) and answer.blame != "upload":
                if answer.blame == "input":
                    raise InputError(answer.words)
                raise RuntimeError(f"silo {self._names[clients[0]]}: {answer.words}")
            yield clients, answer

    def _tell(self, event: Event) -> None:
        if self._events is not None:
            self._events(event)

    def _tell_trained(
        self, number: int, clients: Sequence[int], answer: Answer, refused: dict[int, str], done: int, total: int
    ) -> None:
        if self._events is None:
            return
        for client, why in refused.items():
            self._events(Event("refused", number, self._names[client], words=why))
        one = self._names[clients[0]] if len(clients) == 1 else None
        size = nbytes(answer.values) if isinstance(answer, Upload) and not refused else None
        seconds = answer.seconds if isinstance(answer, Upload) else None
        self._events(Event("trained", number, one, size, seconds, done=done, total=total))


def _clouds(method: Method, asked: Sequence[int], down: Download) -> tuple[dict[int, Model] | None, list[str]]:
    """Copies of the cloud models that silos are sent, where the method has such; or a note that they are too large."""
    if not isinstance(method, Clouded) or not asked:
        return None, []
    size = len(asked) * nbytes(method.cloud_model(down.to(0)))
    if size > MOST_CLOUDS:
        return None, [f"cloud models are not kept: they take {size / 2**30:.1f} GiB, the limit is 1"]
    sent = {client: method.cloud_model(down.to(place)) for place, client in enumerate(asked)}
    return {client: {key: value.clone() for key, value in model.items()} for client, model in sent.items()}, []
