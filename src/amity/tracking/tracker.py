"""What a tracker has to do, and what it is told of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol


class Subject(NamedTuple):
    """The run that a tracker is about to follow."""

    path: Path  # the run directory
    name: str  # that people know it by
    parameters: Mapping[str, str | float | bool]  # every option of the run; a method's own as "set.sigma"
    facts: Mapping[str, str]  # method, data, setting, model and version
    anew: bool  # it begins with round 1: what was logged of an earlier run in this directory is not its own


class Ending(NamedTuple):
    """What is known of a run when nothing more will come."""

    round: int  # the last one
    summary: Mapping[str, float]
    files: Sequence[Path]  # worth keeping beside the numbers: configuration, summary, report
    finished: bool  # every round was done


class Tracker(Protocol):
    """A place for numbers. Its methods are called one after the other, from one thread, and may fail."""

    def begin(self, subject: Subject) -> int:
        """Open the place; the last round that it already holds of this run comes back, 0 where it holds none."""

    def add(self, round: int, when: float, values: Mapping[str, float]) -> None:
        """Take the numbers of one round. `when`: in seconds since 1970."""

    def end(self, ending: Ending) -> None:
        """Take what came of it all, and close."""
