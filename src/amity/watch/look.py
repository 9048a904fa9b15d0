"""What one look at a folder gives: how its run stands, and its record as far as there is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from amity.record import Record
from amity.report.contents import EventView, LiveRun

MOST_RUNS = 40
"""Runs that are followed, of a folder or of a hub: those that have changed last."""


class Look(NamedTuple):
    """One run as it stands, its place in the view left open."""

    live: LiveRun
    feed: Sequence[EventView] = ()  # newest last
    record: Record | None = None
    stamp: object = None  # differs when the record does


class Followed(Protocol):
    """A folder that is looked at again and again."""

    def look(self, now: float) -> list[Look]:
        """Return all runs in it as they stand; whatever is wrong with one is said in its words."""


def waiting(name: str, words: str) -> Look:
    """Return a run of which nothing is on disk yet."""
    return Look(
        {
            "run": -1,
            "name": name,
            "phase": "waiting",
            "words": words,
            "round": 0,
            "rounds": 0,
            "begun": None,
            "left": None,
            "written": 0.0,
            "silos": [],
            "log": [],
        }
    )
