"""The server's side: it asks, admits, aggregates and reports. It sees uploads and a few numbers, never data or states.

    draw who is asked -> download -> ask -> admit uploads -> aggregate -> save -> tell each silo -> measure -> report

A silo learns what became of its upload only after the server has made its new state, and has saved it where it saves.
The silos' side is not known here, and this one is not known there: they share `messages.py` and the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import torch
from torch import Generator, Tensor

from amity.contract import Download, InputError, State, nbytes
from amity.federation import carrier as asks
from amity.federation.admission import Admission, advice, expected, variances_of
from amity.federation.carrier import Carrier
from amity.federation.clouds import clouds_of
from amity.federation.consulting import agree, consult
from amity.federation.contact import Contact, misplaced
from amity.federation.events import Event, Listener, silent
from amity.federation.exposure import least_uploads, warning
from amity.federation.membership import grow_server, of_this_method, with_member
from amity.federation.messages import Done, Failed, Left, Measured, Verdict, absent
from amity.federation.participation import Lot, draw, epochs_of
from amity.federation.plan import Member, Plan, layout_of
from amity.federation.reports import Progress, Round, Watch, sent_bytes, verdict_of, weights_of
from amity.federation.robust import Guard, progress_after
from amity.federation.spending import spent_in
from amity.free_memory import in_one_line
from amity.learn.streams import stream

Clouds = Literal["none", "last", "evaluated"]
"""Rounds in which the cloud models that silos were sent are reported: none, the last, or all that are evaluated."""


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
        save: Callable[[Round], None] | None = None,
        least: int = 0,
    ) -> None:
        """`start` continues from a saved state. `evaluate_every`: rounds between evaluations; the last round always has
        one. `save` is called with the round so far before any silo is told what became of its upload. `least`: uploads
        that a round needs, of silos that may be missing; with fewer nothing is aggregated."""
        self.plan, self.carrier = plan, carrier
        called = [str(client) for client in range(plan.fed.clients)] if names is None else names
        self._contact = Contact(carrier, called, events, frozenset() if start is None else start.left)
        self._every = evaluate_every
        self._clouds, self._save = clouds, save
        self._least = least
        with in_one_line():
            made = plan.method, plan.task, plan.fed
            first = plan.method.init_server(*made[1:]) if start is None else of_this_method(*made, start.server)
            server = carrier.storage.house(first)
        self.progress = Progress(0, server) if start is None else start._replace(server=server)
        self._owed: Progress | None = None  # the round that silos behind have not been told to keep

    def rounds(self) -> Iterator[Round]:
        """Run the rounds that are left, reporting after each."""
        total = self.plan.fed.rounds
        while self.progress.round < total:
            number = self.progress.round + 1
            due = self._due(number)
            clouds = due and (self._clouds == "evaluated" or (self._clouds == "last" and number == total))
            with in_one_line():
                report = self._round(number, evaluated=due, clouds=clouds)
            yield report
            del report  # or the states before this round would stay alive through the next

    def _due(self, number: int) -> bool:
        """Whether a round is evaluated."""
        return number % self._every == 0 or number == self.plan.fed.rounds

    def meet(self, who: Sequence[int] | None = None, needed: int = 0) -> list[int]:
        """Greet silos that keep their own states, and settle with each of them what became of its last upload.

        Those that can go on come back; the others are behind, and are greeted again before they are asked anything.
        `needed`: as many are waited for.
        """
        run, number, settled = self.plan.run, self.progress.round, self.progress.settled
        hellos = asks.hello(run, number, self.here if who is None else who, settled, needed)
        behind = self._contact.behind
        behind |= set(hellos)
        for (client,), answer in self._contact.answers(hellos):
            if not isinstance(answer, Failed | Left):
                why = misplaced(self._contact.names[client], answer, layout_of(self.plan), settled.get(client))
                if why is not None and not self._least:
                    raise InputError(why)  # everybody is needed
                self._contact.met(client, number, why)
        met = self._contact.near(list(hellos))
        if self._owed is not None and met and who is not None:
            self._keep(self._owed, met)
        return met

    def meet_again(self) -> None:
        """Greet the silos that are behind: they may be back."""
        if behind := self._contact.behind - self._contact.left:
            self.meet(sorted(behind))

    def keep(self, progress: Progress | None = None, who: Sequence[int] | None = None) -> None:
        """Tell silos, or all, to keep their personal models of the last round, or of the round of a saved progress."""
        kept = progress or self.progress
        self._keep(kept, self._contact.near(self.here if who is None else who))
        self._owed = kept if self._contact.behind else None

    def keep_first(self) -> None:
        """Tell silos that have no model yet to keep that of the last round: they came after the one to be delivered."""
        who = [client for client in self._contact.near(self.here) if client not in self.progress.kept]
        if who:
            self._keep(self.progress, who)

    def _keep(self, progress: Progress, who: Sequence[int]) -> None:
        messages = asks.keep(self.plan.run, progress.round, who, self._sent_after(progress, who))
        done = {client for (client,), answer in self._contact.answers(messages) if isinstance(answer, Done)}
        self.progress = self.progress._replace(kept=self.progress.kept | done)

    def end(self) -> list[str]:
        """Tell every silo that the run is over; the names of those that have heard it come back."""
        messages = asks.finish(self.plan.run, self.progress.round, self._contact.near(self.here))
        done = [client for (client,), answer in self._contact.answers(messages) if isinstance(answer, Done)]
        return [self._contact.names[client] for client in done]

    def join(self, member: Member) -> int:
        """Take one more silo in, between two rounds. Its number comes back; whoever hosts it begins it with `plan`."""
        method, task, before, *_ = self.plan
        if member.name in self._contact.names:
            raise InputError(f"a silo that joins needs a name of its own, got {member.name!r} again: rename it")
        after = with_member(before, member)
        grown = grow_server(method, task, before, after, self.progress.server)
        self._contact.told(asks.joined(self.plan.run, self.progress.round, self.here, member))
        self.plan = self.plan._replace(fed=after)
        self._contact.names.append(member.name)
        self.carrier.storage.grow(after.clients)
        self.progress = self.progress._replace(server=self.carrier.storage.house(grown))
        self._contact.tell(Event("joined", self.progress.round, member.name))
        return before.clients

    def leave(self, client: int) -> None:
        """Let a silo go, with the personal model that it has now. It is never asked again."""
        if client not in self.here or len(self.here) == 1:
            raise InputError(f"a silo that leaves needs to be there, with another one, got {client}: see who is")
        self._keep(self.progress, [client])
        self._contact.left.add(client)
        self.progress = self.progress._replace(left=frozenset(self._contact.left))
        self._contact.tell(Event("left", self.progress.round, self._contact.names[client]))

    @property
    def here(self) -> list[int]:
        """The silos that have not left."""
        return [client for client in range(self.plan.fed.clients) if client not in self._contact.left]

    def _round(self, number: int, *, evaluated: bool, clouds: bool) -> Round:
        plan, carrier, watch = self.plan, self.carrier, Watch()
        method, task, fed, solver, rule, *_ = plan
        lot = self._called(number)
        server, *opening = agree(self._contact, plan, self.progress.server, number, self.here)
        asked, ending = lot.asked.tolist(), number == rule.ending
        needed = 0 if ending else min(self._least, len(asked))  # nothing depends on who is there
        down = self._download(server, lot.asked, number)
        down_bytes = sent_bytes(down, len(asked))
        kept, told = clouds_of(method, asked, down) if clouds else (None, [])  # now: uploads take their place
        told += warning(down, asked, self._contact.names)
        watch.lap("download")
        shelf = Guard(carrier.storage.shelf(down, server, asked), plan, down, server, self.progress.settled)
        admission = Admission(expected(method, task, fed, solver, down, lot.asked, number), variances_of(task))
        behind = self._contact.behind  # and do not know of this round
        away = {client: self._contact.aside.get(client, "it has not come back") for client in asked if client in behind}
        messages = asks.train(plan.run, number, asked, down, needed).without(away)
        self._contact.tell(Event("round", number, total=len(asked)))  # now: what is refused before leaves nothing
        refused, missing = self._contact.collect(messages, lot, admission, shelf)
        watch.lap("train")
        missing |= away
        out = refused.keys() | missing.keys() | lot.lost
        there = [place for place, client in enumerate(asked) if client not in out]
        said = consult(self._contact, plan, server, number, asked, there, shelf)
        accepted, refused, missing = said.accepted, refused | said.refused, missing | said.missing
        least = needed if ending else max(needed, least_uploads(fed))
        words = f"fewer uploads than the {least} that a round needs"  # others have left, or were refused
        few = {asked[at]: words for at in accepted} if len(accepted) < least else {}
        accepted = [] if few else accepted
        clients, up_bytes = [asked[place] for place in accepted], 0
        if accepted:
            uploads = {**shelf.rows(accepted), **said.answers}
            up_bytes = nbytes(uploads)
            with shelf.aggregating():
                server = method.aggregate(server, torch.tensor(clients), uploads, number)
            del uploads
        gone = {**lot.dropped, **missing, **few}
        verdicts = {i: verdict_of(i, refused, gone) for i in messages}
        epochs = {} if ending else {i: epochs_of(rule, fed, i, number) for i in asked if i not in missing}
        report = Round(
            round=number,
            scores=None,
            took_part=clients,
            dropped={**gone, **refused},
            epochs=epochs,
            bytes_up=up_bytes + opening[0],
            bytes_down=down_bytes + opening[1] + said.bytes_down,
            bytes_eval=0,
            seconds=watch.laps,
            weights=weights_of(down, lot.asked, fed.clients),
            progress=progress_after(self.progress, number, server, verdicts, shelf, self._contact.left),
            warnings=[*down.notes, *told, *carrier.notes(), *map(advice, sorted(set(refused.values())))],
            executed=carrier.executed,
            bytes_spared=messages.spared,
            clouds=kept,
            ending=ending,
            spent=spent_in(plan, epochs),
        )
        self._settle(report, verdicts, gone)
        shelf.settle(server, accepted, clients)
        watch.lap("aggregate")
        self._contact.tell(Event("aggregated", number, seconds=watch.laps["aggregate"], total=len(accepted)))
        del shelf, down, messages  # as large as all models together: evaluating has no use for them
        return self._seen(report, evaluated=evaluated, watch=watch)

    def _called(self, number: int) -> Lot:
        """Draw who is asked. Silos that are behind are greeted first, and waited for where too few would be left."""
        contact = self._contact
        self.meet_again()
        while True:
            here = self.here
            if len(here) < max(1, self._least):
                raise InputError(f"{len(here)} silos have not left the run, which needs {max(1, self._least)}: end it")
            lot = draw(self.plan.rule, self.plan.fed, number, frozenset(contact.left))
            asked = lot.asked.tolist()
            needed = min(self._least, len(asked))
            if len(contact.near(asked)) >= needed:
                return lot
            self.meet(contact.hoped_for(asked, needed), needed - len(contact.near(asked)))

    def catch_up(self, report: Round) -> Round:
        """Evaluate the last round, which was saved before the server went down, and complete its report."""
        watch = Watch(report.seconds)
        self.progress = self.progress._replace(round=report.round)
        report = report._replace(progress=self.progress, spent=spent_in(self.plan, report.epochs))
        return self._seen(report, evaluated=self._due(report.round), watch=watch)

    def _seen(self, report: Round, *, evaluated: bool, watch: Watch) -> Round:
        """The report of a round with what its silos say, and with what the silos that are hosted here show."""
        scores, size, spared = self._measure(report.round) if evaluated else (None, 0, 0)
        watch.lap("evaluate")
        report = report._replace(scores=scores, bytes_eval=size, bytes_spared=report.bytes_spared + spared)
        door = self.carrier.door
        if door is None:
            return report
        relations = door.relations()
        weights = report.weights if relations is None else relations.double()
        return report._replace(weights=weights, holds=door.holds())

    def _settle(self, report: Round, verdicts: Mapping[int, Verdict], gone: Mapping[int, str]) -> None:
        """Save the new state, then tell each silo that was asked what became of its upload."""
        self.progress = report.progress
        if self._save is not None:
            self._save(report)
        self._contact.tell_about("dropped", report.round, gone)
        near = {client: verdicts[client] for client in self._contact.near(list(verdicts))}
        self._contact.told(asks.commit(self.plan.run, report.round, near))

    def _measure(self, number: int) -> tuple[list[Measured], int, int]:
        """Every silo's own account of its personal model after this round, what it took to ask, and what of it silos
        had already."""
        run, here = self.plan.run, self._contact.near(self.here)
        down = self._sent_after(self.progress, here)
        messages = asks.measure(run, number, here, down)
        scores = self._contact.scores(messages, self.plan.task.metric)
        scores |= {i: absent(run, number, i) for i in range(self.plan.fed.clients) if i not in scores}
        size = 0 if down is None else sent_bytes(down, len(here))
        return [scores[client] for client in sorted(scores)], size, messages.spared

    def _sent_after(self, progress: Progress, who: Sequence[int]) -> Download | None:
        """What silos are sent to evaluate after a round, for methods that ask for it."""
        asked = self.plan.method.evaluates == "server"
        return self._download(progress.server, torch.tensor(who), progress.round + 1) if asked else None

    def _download(self, server: State, who: Tensor, round: int) -> Download:
        def rng(role: str, key: int) -> Generator:
            return stream(self.plan.fed.seed, role, key, round)

        with self.carrier.storage.sending():
            return self.plan.method.download(server, who, round, rng)
