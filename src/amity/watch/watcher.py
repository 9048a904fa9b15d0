"""All that is watched, together: what is live now, and the whole view.

The live part is small and is sent as often as it changes, at most once a second. The view holds every round, every
matrix of weights and every verdict, several megabytes with 100 silos and 90 rounds, and changes once a round. So it is
not sent: it has a number, the live part names the newest one, and a page fetches it when it has an older one. A page
that is slow, or hidden, then skips views and never lags behind; and no view is made unless somebody looks.

Making a view takes time from the run that is watched. After one that took a second none is made for twenty: watching
costs five percent of one core at most.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from amity.errors import AmityError
from amity.record import Record
from amity.report.contents import EventView, LiveRun, LiveView, View
from amity.report.series import series_of
from amity.report.view import empty_view, named_runs, view_of
from amity.watch.folders import Place, places_in
from amity.watch.hub_folder import HubFolder
from amity.watch.look import MOST_RUNS, Followed, Look, waiting
from amity.watch.run_folder import RunFolder
from amity.watch.silo_folder import SiloFolder

EVERY = 1.0
"""Seconds between two looks at the folders, at least, however many pages are open."""

SPARE = 20
"""So many times as long as a view took to make, none is made."""

FEED = 120

_log = logging.getLogger("amity.watch")


class Now(NamedTuple):
    """What is live, and the number of the view that goes with it."""

    number: int
    live: LiveView

    def news(self) -> str:
        """Return what a page is sent, without what changes with time alone: equal texts, nothing new."""
        runs = [{**run, "left": None} for run in self.live["runs"]]
        return json.dumps([self.number, runs, self.live["feed"]])

    def text(self) -> str:
        """Return the JSON that a page is sent."""
        return json.dumps({"number": self.number, "live": self.live}, allow_nan=False, separators=(",", ":"))


class Watcher:
    """Looks at folders when asked to, and not more often than once a second."""

    def __init__(self, paths: Sequence[Path], clock: Callable[[], float] = time.time) -> None:
        self._paths = list(paths)
        self._clock = clock
        self._followed: dict[Place, Followed] = {}
        self._guard = threading.Lock()  # pages ask from several threads
        self._looked = -EVERY
        self._stamps: object = None
        self._now = Now(0, {"now": clock(), "runs": [], "feed": []})
        self._looks: list[Look] = []
        self._view: tuple[int, bytes] = (-1, b"")
        self._next_view = 0.0  # when the next one may be made

    def look(self, *, hurry: bool = False) -> Now:
        """Return how everything stands, as of this second; with `hurry`, as of this moment."""
        with self._guard:
            self._look(hurry)
            return self._now

    def view(self, *, hurry: bool = False) -> bytes:
        """Return the whole view as JSON, with its number: the newest, or the one before where that has cost a lot.

        With `hurry` it is the newest in any case.
        """
        with self._guard:
            self._look(hurry)
            begun = time.monotonic()
            if self._view[0] != self._now.number and (hurry or begun >= self._next_view):
                view = self._made([look.record for look in self._looks])
                text = json.dumps({"number": self._now.number, "view": view}, allow_nan=False, separators=(",", ":"))
                self._view = self._now.number, text.encode()
                ended = time.monotonic()
                self._next_view = ended + SPARE * (ended - begun)
            return self._view[1]

    def _look(self, hurry: bool) -> None:
        if not hurry and time.monotonic() - self._looked < EVERY:
            return
        now, places = self._clock(), self._places()
        self._followed = {place: one for place, one in self._followed.items() if place in places}
        looks = [look for place in places for look in self._look_at(place, now)]
        stamps = [(look.live["name"], look.stamp) for look in looks]
        number = self._now.number + (stamps != self._stamps)
        self._looks, self._stamps, self._looked = looks, stamps, time.monotonic()
        runs: list[LiveRun] = [{**look.live, "run": at} for look, at in zip(looks, _places_of(looks), strict=True)]
        self._now = Now(number, {"now": now, "runs": _told_apart(runs), "feed": _feed(looks)})

    def _places(self) -> list[Place]:
        found = list(dict.fromkeys(place for path in self._paths for place in places_in(path)))
        if len(found) > MOST_RUNS:
            newest = set(sorted(found, key=lambda place: _age(place.path))[:MOST_RUNS])
            found = [place for place in found if place in newest]
        return found

    def _look_at(self, place: Place, now: float) -> list[Look]:
        follower = self._followed.get(place)
        if follower is None:
            kinds: dict[str, Callable[[Path, str], Followed]] = {
                "run": RunFolder,
                "hub": HubFolder,
                "silo": SiloFolder,
            }
            follower = self._followed[place] = kinds[place.kind](place.path, place.name)
        try:
            return follower.look(now)
        except Exception as error:  # what one folder holds ends neither the page nor what it shows of others
            _log.warning("%s cannot be followed", place.path, exc_info=error)
            del self._followed[place]
            return [waiting(place.name, f"{place.path} cannot be followed ({error}): the log says more")]

    def _made(self, records: Sequence[Record | None]) -> View:
        known = [record for record in records if record is not None and record.lines]
        trouble = ""
        if known:
            try:
                return {**view_of(known), "live": self._now.live}
            except AmityError as error:
                trouble = str(error)
            except Exception as error:
                _log.warning("no view can be made", exc_info=error)
                trouble = f"the runs cannot be drawn ({type(error).__name__}): the log says more"
        return view_without_rounds(self._now.live, [trouble] if trouble else [])


def view_without_rounds(live: LiveView, notes: list[str]) -> View:
    """Return a view without any round: what is live is all there is to see."""
    title = ", ".join(run["name"] for run in live["runs"][:3]) or "nothing yet"
    return {**empty_view(title, live["now"]), "notes": notes, "live": live}


def _places_of(looks: Sequence[Look]) -> list[int]:
    """Return each run's place in `View.runs`; -1 where it has no round on record."""
    known = [look.record for look in looks if look.record is not None and look.record.lines]
    if not known:
        return [-1] * len(looks)
    order = [id(record) for _, record in named_runs(series_of(known))]
    return [order.index(id(look.record)) if look.record is not None and look.record.lines else -1 for look in looks]


def _told_apart(runs: list[LiveRun]) -> list[LiveRun]:
    """Number the runs of one name, which folders in different places may have."""
    seen: dict[str, int] = {}
    for run in runs:
        seen[run["name"]] = count = seen.get(run["name"], 0) + 1
        if count > 1:
            run["name"] = f"{run['name']} #{count}"
    return runs


def _feed(looks: Sequence[Look]) -> list[EventView]:
    """Return the last events of all runs, newest first, each with its run's name where there are several."""
    found: list[EventView] = []
    for look in looks:
        before = f"{look.live['name']}: " if len(looks) > 1 else ""
        for event in look.feed:
            found.append({**event, "words": before + event["words"]})
    return sorted(found, key=lambda event: -event["time"])[:FEED]


def _age(path: Path) -> float:
    """Return minus the time at which a folder has changed."""
    try:
        return -path.stat().st_mtime
    except OSError:
        return 0.0
