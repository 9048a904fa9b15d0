"""The course of a run: its rounds, from the beginning or from where it was saved, to the models that are delivered.

There is one recovery story. Where a worker is lost, all silos and the server go back to the last state that was saved,
or to the beginning, and the rounds since then come again: equal bit for bit, so that nobody hears of them twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Self

from amity.contract import Model
from amity.errors import InputError, LostWorker
from amity.federation.carrier import Carrier, Door
from amity.federation.events import Event, Listener, silent
from amity.federation.plan import Plan
from amity.federation.reports import Progress, Round
from amity.federation.resume import Saved, begin
from amity.federation.server import Clouds

LOSSES = 5
"""Workers may be lost so many times between two rounds that count: more often, it will happen again."""


class Course:
    """A run of hosted silos under way. Used as a context: leaving it ends the carrier."""

    def __init__(
        self,
        plan: Plan,
        open_carrier: Callable[[], AbstractContextManager[Carrier]],
        *,
        saved: Saved | None = None,
        names: Sequence[str] | None = None,
        events: Listener = silent,
        evaluate_every: int = 1,
        clouds: Clouds = "none",
    ) -> None:
        self._plan = plan
        self._open = open_carrier
        self._names = names
        self._events = events
        self._every = evaluate_every
        self._clouds: Clouds = clouds
        self.saved = saved
        self._done = 0 if saved is None else saved.progress.round
        self._kept = 0  # the round that silos were told to keep
        self._losses = 0
        self._news: list[str] = []  # for the record of the next round that counts
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def door(self) -> Door:
        """The door to the silos."""
        door = self._carrier.door
        if door is None:
            raise InputError("the silos of this run are elsewhere: nothing of theirs can be read here")
        return door

    @property
    def consistent(self) -> bool:
        """Whether the silos stand where the last round that was reported has left them."""
        return self._server.progress.round == self._done

    def run(self, each: Callable[[Round], None]) -> None:
        """Run the rounds that are left, handing over each of them once.

        One that was handed over when a worker was lost, and raised `LostWorker`, is handed over again.
        """
        while True:
            try:
                for report in self._server.rounds():
                    if report.round > self._done:
                        self._hand_over(report, each)
                    elif report.round == self._kept:
                        self._server.keep()
                    del report  # or the states before this round would stay alive through the next
                return
            except LostWorker as lost:
                self._again(lost)

    def _hand_over(self, report: Round, each: Callable[[Round], None]) -> None:
        self._done = report.round
        try:
            each(report._replace(warnings=[*report.warnings, *self._news]))
        except LostWorker:  # while its silos were read: it counts when it has come again
            self._done -= 1
            raise
        self._losses, self._news = 0, []

    def delivered(self, *, last: bool) -> list[Model]:
        """Every silo's personal model of the round that was kept, or of the last one."""
        while True:
            try:
                if last:
                    self.keep()
                return self.door.delivered()
            except LostWorker as lost:
                self._again(lost)
                self.run(lambda report: None)  # none that is new, but silos must come to where they were

    def keep(self) -> None:
        """Make the models of the last round those to deliver."""
        self._server.keep()
        self._kept = self._server.progress.round

    def snapshot(self, progress: Progress, kept: Progress | None = None) -> Saved:
        """The federation as it is now; `kept` is the round whose models are to be delivered, if it is another one."""
        other = kept is not None and kept.round != progress.round
        return Saved(progress, self.door.states(), kept, self.door.kept_states() if other else ())

    def _begin(self) -> None:
        self._carrier = self._stack.enter_context(self._open())
        self._server = begin(
            self._plan,
            self._carrier,
            self.saved,
            names=self._names,
            events=self._events,
            evaluate_every=self._every,
            clouds=self._clouds,
        )

    def _again(self, lost: LostWorker) -> None:
        """Go back to what was saved last."""
        self._losses += 1
        since = 0 if self.saved is None else self.saved.progress.round
        if self._losses > LOSSES:
            often = f"it has happened {self._losses} times in one round"
            raise LostWorker(f"{lost}; {often}: look at the machines, then continue with --resume") from lost
        until = min(self._done + 1, self._plan.fed.rounds)
        self._news.append(f"{lost}: rounds {since + 1} to {until} were done again")
        self._events(Event("lost", since, words=self._news[-1]))
        self._stack.close()
        self._begin()
