"""Following a run: a listener that hands each recorded round to a tracker, from a thread of its own.

A server that is away answers after minutes; the run does not wait for it. Numbers are read from the record: the event
says that a round is there. So a run that is resumed also brings what a killed process could not log any more, and no
round comes twice.
"""

from __future__ import annotations

import queue
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from amity import record
from amity.config.ending import all_rounds
from amity.federation.events import Event, Listener, Stream
from amity.record.directory import CONFIG, LINES, SUMMARY, has_ended
from amity.record.lines import NewLines
from amity.tracking.registry import check_trackers, open_tracker
from amity.tracking.tracker import Ending, Subject, Tracker
from amity.tracking.values import parameters_of, summary_of, values_of

PATIENCE = 60.0
"""Seconds that the end of a run waits for a tracker that has not caught up."""

FACTS = ("method", "data", "setting", "model", "version")

Note = Callable[[str], None]


@contextmanager
def track(
    path: str | Path,
    *names: str,
    report: str | Path | None = None,
    note: Note = warnings.warn,
    patience: float = PATIENCE,
) -> Iterator[Listener]:
    """Give a listener that logs the run in this directory to the named trackers; leaving it ends them.

    `report`: a file that is kept with the run, where it is there at the end. `note` hears of a tracker that fails.
    """
    place, page = Path(path), None if report is None else Path(report)
    following = [_Following(name, place, note, patience) for name in check_trackers(names)]
    try:
        yield Stream(*(one.listen for one in following))
    finally:
        for one in following:
            one.end(page)


def log_run(path: str | Path, *names: str, report: str | Path | None = None, note: Note = warnings.warn) -> None:
    """Log a run that is on disk already, with all its rounds, to the named trackers."""
    there = record.read(path)
    times = {event.round: event.time for event in there.events if event.what == "recorded"}
    with track(path, *names, report=report, note=note) as listen:
        listen(Event("round", 1))
        for line in there.lines:
            listen(Event("recorded", line["round"], time=times.get(line["round"], 0.0)))


class _Following:
    """Takes the events of a run, and hands its rounds to one tracker from a thread of its own."""

    def __init__(self, name: str, path: Path, note: Note, patience: float) -> None:
        self._name, self._path, self._note, self._patience = name, path, note, patience
        self._heard: queue.SimpleQueue[Event | Path | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"amity-{name}", daemon=True)
        self._begun = False
        self._trouble: str | None = None
        self._said = False

    def listen(self, event: Event) -> None:
        """Take note of an event; the first round starts the thread."""
        if event.what == "round" and not self._begun:
            self._begun = True
            self._thread.start()
        if self._begun and event.what in ("round", "recorded"):
            self._heard.put(event)
        self._say()

    def end(self, report: Path | None) -> None:
        """Let the tracker catch up and close it; one that takes too long is left behind."""
        if not self._begun:
            return
        self._heard.put(report)
        self._thread.join(self._patience)
        if self._thread.is_alive():
            self._trouble = f"no answer in {self._patience:.0f} seconds"
        self._say()

    def _say(self) -> None:
        """Say once what went wrong, from the thread of the run."""
        if self._trouble is not None and not self._said:
            self._said = True
            self._note(
                f"{self._name} has failed ({self._trouble}): the run goes on without it, {self._path} has it all"
            )

    def _work(self) -> None:
        try:
            self._follow()
        except Exception as error:
            self._trouble = " ".join(f"{type(error).__name__}: {error}".split())[:300]

    def _follow(self) -> None:
        first = self._heard.get()
        assert isinstance(first, Event)
        there = record.read(self._path)
        tracker: Tracker = open_tracker(self._name)
        held = tracker.begin(_subject(there, anew=first.round == 1))
        lines = NewLines(self._path / LINES)
        while isinstance(event := self._heard.get(), Event):
            for line in lines.until(event.round) if event.what == "recorded" else ():
                if line["round"] > held:
                    tracker.add(line["round"], event.time or time.time(), values_of(line, there))
        tracker.end(_ending(self._path, event))


def _subject(there: record.Record, *, anew: bool) -> Subject:
    facts = {key: str(value) for key, value in there.facts.items() if key in FACTS}
    name = "/".join(there.path.absolute().parts[-2:])
    return Subject(there.path, name, parameters_of(there), facts, anew)


def _ending(path: Path, report: Path | None) -> Ending:
    there = record.read(path)
    files = [path / CONFIG, path / SUMMARY, *([report] if report is not None else [])]
    finished = has_ended(path) and len(there.lines) >= all_rounds(there.config)
    return Ending(len(there.lines), summary_of(there.results), [file for file in files if file.exists()], finished)
