"""How each silo of a run stands, told from the run's events and rounds.

    training -> uploaded -> evaluated        absent, refused, left; idle: not asked in this round

A step is claimed for nobody. Where several silos train together nothing tells them apart until the round is over, and
where a round asks only some of them nobody but the server knows whom: these stay as they were until an event, or the
round's line, names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from amity.federation.events import Event
from amity.federation.transport import BEAT, SILENT
from amity.record.contents import Line
from amity.record.summary import scores_of
from amity.report.contents import LiveSilo, Scores

RECENT = 24
"""Evaluations that a sparkline shows: as many as can be told apart in the width of a table's cell."""

PACE = 5
"""Rounds whose median says how long one takes: few, for training may slow down; a median, for one may have waited."""

GREEN = 3 * BEAT
"""Seconds since a sign of life up to which a silo is well. One comes every 5 s; two may be lost by a busy network."""

ORANGE = SILENT
"""Seconds up to which it is doubtful: after these the server itself takes the silo for absent."""

AWAY = ("absent", "refused")

Health = Literal["green", "orange", "red", "none"]


def health(seen: float | None, now: float) -> Health:
    """Return the colour of the age of a sign of life; "none" where silos give none, as in a simulation."""
    if seen is None:
        return "none"
    age = now - seen
    return "green" if age <= GREEN else "orange" if age <= ORANGE else "red"


@dataclass
class Stand:
    """One silo."""

    state: str
    since: float | None = None
    words: str = ""
    round: int = 0

    def set(self, state: str, since: float | None, words: str = "") -> None:
        """Note a step; the time stays where the silo stood there already."""
        if (self.state, self.words) != (state, words):
            self.since = since
        self.state, self.words = state, words


class Standings:
    """All silos of a run, brought up to date event by event."""

    def __init__(self, silos: Sequence[str]) -> None:
        self.silos = {name: Stand("invited") for name in silos}
        self.round = 0  # that was begun last
        self.begun: float | None = None  # the run's first event
        self._began: float | None = None  # the round under way
        self._spans: list[float] = []  # of rounds that are over
        self._everybody = False  # whether the round asks all

    def take(self, event: Event) -> None:
        """Take one event."""
        self.begun = event.time if self.begun is None else self.begun
        if event.silo is not None and event.silo in self.silos:
            self._take_silo(event, self.silos[event.silo])
            return
        match event.what:
            case "round":
                self._begin(event)
            case "trained" if event.done == event.total:
                self._move(("training",), "uploaded", event.time)
            case "aggregated" if self._everybody:
                self._move(("training",), "uploaded", event.time)
            case "measured" if event.done == event.total:
                self._move(("uploaded",), "evaluated", event.time)
            case "recorded":
                self._end_round(event)
            case "ended":
                self._move(("training", "uploaded", "evaluated", "idle", *AWAY), "finished", event.time)

    def _take_silo(self, event: Event, one: Stand) -> None:
        match event.what:
            case "trained":
                if one.state != "refused" or event.bytes is not None:  # the upload of a refused one has no size
                    one.set("uploaded", event.time)
                one.round = event.round
            case "dropped" | "waiting" | "aside":
                one.set("absent", event.time, event.words)
            case "refused" | "left":
                one.set(event.what, event.time, event.words)
            case "joined":
                one.set("connected", event.time)

    def _begin(self, event: Event) -> None:
        self.round, self._began = event.round, event.time
        there = [one for one in self.silos.values() if one.state != "left"]
        self._everybody = event.total is None or event.total >= len(there)
        for one in there:
            if one.state not in AWAY:
                one.set("training" if self._everybody else "idle", event.time)

    def _end_round(self, event: Event) -> None:
        if self._began is not None and event.round == self.round:
            self._spans = [*self._spans[1 - PACE :], max(0.0, event.time - self._began)]
        self._began = None

    def settle(self, line: Line, silos: Sequence[str], when: float | None) -> None:
        """Take what a round's line says of each silo, which is more than events do where several train together."""
        gone, measured = line.get("dropped", {}), scores_of(line) is not None
        for name in line.get("took_part", ()):
            if name in self.silos:
                self.silos[name].round = line["round"]
        if line["round"] != self.round or self._began is not None:
            return  # events tell of a later round already
        for name, one in self.silos.items():
            if name in line.get("took_part", ()):
                if one.state != "finished":
                    one.set("evaluated" if measured else "uploaded", one.since if one.since is not None else when)
            elif name in gone and one.state not in (*AWAY, "left", "finished"):
                one.set("absent", when, gone[name])
            elif one.state == "training":
                one.set("idle", when)

    def _move(self, before: Iterable[str], state: str, when: float) -> None:
        for one in self.silos.values():
            if one.state in before:
                one.set(state, when)

    def left(self, rounds: int, done: int, now: float) -> float | None:
        """Return the seconds that the run will still take, by the pace of its last rounds; None before the first."""
        if not self._spans:
            return None
        under_way = 0.0 if self._began is None else max(0.0, now - self._began)
        pace = median(self._spans)
        return max(0.0, pace * (rounds - done) - min(under_way, pace))

    def rows(self, recent: Sequence[Scores]) -> list[LiveSilo]:
        """Return a row for each silo of a simulation, whose silos live in the run's own process."""
        rows: list[LiveSilo] = []
        for (name, one), values in zip(self.silos.items(), recent, strict=True):
            rows.append(
                {
                    "name": name,
                    "state": one.state,
                    "words": one.words,
                    "since": one.since,
                    "seen": None,
                    "health": "none",
                    "round": one.round,
                    "recent": values,
                }
            )
        return rows


def recent_scores(lines: Sequence[Line], silos: int) -> list[Scores]:
    """Return each silo's scores in the last rounds that were evaluated.  # [silo][round]"""
    found: list[Scores] = []
    for line in reversed(lines):
        if (scores := scores_of(line)) is not None:
            found.append(scores)
        if len(found) == RECENT:
            break
    found.reverse()
    return [[_short(scores[silo]) for scores in found] for silo in range(silos)]


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
