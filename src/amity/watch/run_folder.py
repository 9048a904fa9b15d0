"""A run directory, followed while it is written: each look reads what was added since the last, and nothing twice.

`config.toml`, `facts.json`, `checksums.json` and `summary.json` are replaced as a whole when a run begins, is resumed
or ends; then all is read anew, by the reader that reports use. In between, lines are added to `rounds.jsonl` and
`events.jsonl` and matrices to `weights.part`: only these are read.
"""

from __future__ import annotations

import shlex
from datetime import datetime
from pathlib import Path

from amity.config.ending import all_rounds
from amity.config.references import ALONE_FOLDER
from amity.errors import AmityError, DamagedFile
from amity.federation.events import Event
from amity.logs import told
from amity.record import Record, holds_run, read
from amity.record.checksums import SUMS, Check, damaged, weights_sum
from amity.record.contents import Line
from amity.record.directory import (
    CONFIG,
    EVENTS,
    FACTS,
    LINES,
    PART,
    SUMMARY,
    WEIGHTS,
    has_ended,
    parts_of,
    weights_part,
)
from amity.record.events import event_of
from amity.record.files import Array
from amity.record.lines import last_of, read_line
from amity.record.lock import held
from amity.report.contents import EventView, LiveRun
from amity.report.view_events import STEPS, in_words
from amity.watch.look import Look, waiting
from amity.watch.standing import Standings, recent_scores
from amity.watch.tail import LineTail, Mark, Tail, mark_of

FEED = 60
"""Events of a run that the feed may show."""

LOG = 30
"""Lines of a log that the page shows."""

MANY = 12
"""Silos of a run whose single uploads would drown all else in the feed: how many came back is said once a round."""

QUIET = 120.0
"""Seconds without a sign of a run after which it counts as gone, where the file system has no locks that tell."""


class RunFolder:
    """A run directory that is looked at again and again."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self._name = name
        self._fixed: tuple[Mark | None, ...] | None = None
        self._known: Record | None = None
        self._failed = ""  # what was wrong at the last look
        self._made: tuple[tuple[int, ...], Record] | None = None  # the record as it was, and what it was made of
        self._begin()

    def _begin(self) -> None:
        """Forget what was read, to read it anew."""
        self._lines_tail = LineTail(self.path / LINES)
        self._parts_tail = Tail(self.path / PART)
        self._events_tail = LineTail(self.path / EVENTS)
        self._lines: list[Line] = []
        self._checks: list[Check | None] = []
        self._weights: dict[int, Array] = {}
        self._events: list[Event] = []
        self._events_whole = False  # whether those of a run with results are as they were written
        self._standings = Standings(self._known.silos if self._known else [])

    def look(self, now: float) -> list[Look]:
        """Return the run as it stands."""
        if not holds_run(self.path):
            self._fixed = self._known = None
            return [waiting(self._name, f"{self.path} holds no run yet")]
        trouble = self._follow()
        said, self._failed = (trouble if trouble == self._failed else ""), trouble  # files change while they are read
        if self._known is None:
            return [waiting(self._name, said or "it is about to begin")]
        return [self._told(self._known, now, said)]

    def _follow(self) -> str:
        """Read what is new; what comes back says what is wrong, if anything."""
        try:
            fixed = tuple(mark_of(self.path / name) for name in (CONFIG, FACTS, SUMS, SUMMARY))
            if fixed != self._fixed or self._known is None:
                self._known, self._fixed = read(self.path), fixed
                self._begin()
            self._read_lines(self._known)
            self._read_events(self._known)
            self._read_weights(self._known)
            self._record(self._known)  # which looks at the weights' checksums
        except AmityError as error:
            return str(error)
        except OSError as error:
            return f"{self.path} cannot be read ({error.strerror or error}): see to its rights and its disk"
        return ""

    def _read_lines(self, known: Record) -> None:
        """Read new rounds. Those before a damaged one stay; the file is read anew then, until it is mended."""
        added = self._lines_tail.look()
        if added.anew:
            self._lines, self._checks = [], []
        file, must = self.path / LINES, known.sums is not None
        for raw in added.lines:
            before, number = last_of(self._checks), len(self._lines) + 1
            try:
                line, check = read_line(file, raw, number, before, len(known.silos), must=must)
            except DamagedFile:
                self._lines_tail.begin_anew()
                raise
            self._lines.append(line)
            self._checks.append(check)

    def _read_events(self, known: Record) -> None:
        """Read new events, in the same way. Those of a run that has results have a checksum."""
        added = self._events_tail.look()
        if known.sums is not None and known.sums.lists(EVENTS) and (added.lines or not self._events_whole):
            try:
                known.sums.whole(EVENTS)
            except DamagedFile:
                self._events_tail.begin_anew()
                raise
            self._events_whole = True
        if added.anew:
            self._events = []
            self._standings = Standings(list(self._standings.silos))
        for raw in added.lines:
            try:
                event = event_of(raw, Path(f"{self.path / EVENTS} line {len(self._events) + 1}"))
            except DamagedFile:
                self._events_tail.begin_anew()
                raise
            self._events.append(event)
            self._standings.take(event)

    def _read_weights(self, known: Record) -> None:
        """Read new matrices; where the run has ended they are in an archive, which the reader has checked."""
        if (self.path / WEIGHTS).exists() and not (self.path / PART).exists():
            self._weights = known.weights
            return
        added = self._parts_tail.look()
        if added.anew:
            self._weights = {}
        silos = len(known.silos)
        size = 8 + 4 * silos * silos
        self._parts_tail.take_back(len(added.content) % size)
        for round, matrix in parts_of(added.content, silos).items():
            self._weights[round] = matrix

    def _record(self, known: Record) -> Record:
        """The record as a report would read it now; made anew when there is more."""
        stamp = (id(known), len(self._lines), len(self._weights))
        if self._made is None or self._made[0] != stamp:
            self._made = stamp, self._new_record(known)
        return self._made[1]

    def _new_record(self, known: Record) -> Record:
        done = len(self._lines) if known.sums is None or known.sums.rounds is None else known.sums.rounds
        lines, checks = self._lines[:done], self._checks[:done]
        record = Record(known.path, known.config, known.facts, known.silos, lines, known.summary, checks, known.sums)
        # What the properties of these names would read from disk is known already.
        vars(record).update(events=list(self._events), weights=self._checked_weights(checks))
        return record

    def _checked_weights(self, checks: list[Check | None]) -> dict[int, Array]:
        kept = {}
        for round, check in enumerate(checks, start=1):
            matrix = self._weights.get(round)
            if check is not None and check.weights is not None:
                if matrix is None or weights_sum(weights_part(round, matrix)) != check.weights:
                    raise damaged(Path(f"{self.path / PART} round {round}"))
            if matrix is not None:
                kept[round] = matrix
        return kept

    def _told(self, known: Record, now: float, said: str) -> Look:
        rounds, done = all_rounds(known.config), len(self._lines)
        if self._lines:
            self._standings.settle(self._lines[-1], known.silos, self._events[-1].time if self._events else None)
        written = max(_changed(self.path / name) for name in (LINES, EVENTS, SUMMARY))
        phase, words = self._phase(rounds, written, now)
        try:
            record = self._record(known)
        except AmityError as error:
            record, said = None, said or str(error)
        live: LiveRun = {
            "run": -1,
            "name": self._titled(known.facts["method"]),
            "phase": phase,
            "words": f"{words}; {said}" if words and said else words or said,
            "round": done,
            "rounds": rounds,
            "begun": self._standings.begun,
            "left": self._standings.left(rounds, done, now) if phase == "running" else None,
            "written": written,
            "silos": self._standings.rows(recent_scores(self._lines, len(known.silos))),
            "log": [_logged(event) for event in self._events[-LOG:]],
        }
        return Look(live, self._feed(len(known.silos)), record, (self._fixed, done, len(self._weights), said))

    def _titled(self, method: str) -> str:
        """The run's name, with its method where the folder's name does not say it."""
        return self._name if method in self._name else f"{method} ({self._name})"

    def _phase(self, rounds: int, written: float, now: float) -> tuple[str, str]:
        done = len(self._lines)
        if has_ended(self.path) and done >= rounds:
            return "ended", "all rounds are done"
        writing = held(self.path)
        if writing or (writing is None and now - written < QUIET):
            return "running", f"round {self._standings.round} is under way" if self._standings.round > done else ""
        beside = self.path.name == ALONE_FOLDER and holds_run(self.path.parent)
        folder = self.path.parent if beside else self.path
        goes_on = f"`amity run --out {shlex.quote(str(folder))} --resume` continues it"
        if writing is None:
            return "dead", f"nothing was written for {now - written:.0f} s, its process may be gone; {goes_on}"
        if self._events and self._events[-1].what == "stopped":
            return "stopped", f"it was interrupted after round {done}; {goes_on}"
        return "dead", f"its process is gone; {goes_on}"

    def _feed(self, silos: int) -> list[EventView]:
        """The last events in plain words, newest last."""
        asked = {
            event.round: event.total for event in self._events[-FEED * 8 :] if event.what == "round" and event.total
        }
        quiet = (*STEPS, "trained") if silos > MANY else STEPS
        events = [event for event in self._events[-FEED * 8 :] if event.what not in quiet]
        return [in_words(event, asked.get(event.round)) for event in events[-FEED:]]


def _logged(event: Event) -> str:
    return f"{datetime.fromtimestamp(event.time):%H:%M:%S} {told(event)}"


def _changed(path: Path) -> float:
    mark = mark_of(path)
    return 0.0 if mark is None else mark[2] / 1e9
