"""A coordinator's folder: every run's board says how its silos stand, its record how the rounds went."""

from __future__ import annotations

from pathlib import Path

from amity.errors import AmityError
from amity.hub.board import FILE, OVER, SiloStatus, Status, read_status
from amity.hub.runs import CONTRACT, run_names, run_of
from amity.record import holds_run
from amity.report.contents import LiveRun, LiveSilo, Scores
from amity.watch.look import MOST_RUNS, Look, waiting
from amity.watch.run_folder import LOG, RunFolder
from amity.watch.standing import health
from amity.watch.tail import last_lines, mark_of

SERVER_LOG = "server.err"

STALE = 60.0
"""Seconds after which a board that nobody writes is nobody's: it is written every 5 s while a server runs."""

_SILENT = ("finished", "left", "declined")  # silos of which no sign of life is expected


class HubFolder:
    """A hub that is looked at again and again."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self._name = name
        self._records: dict[str, RunFolder] = {}

    def look(self, now: float) -> list[Look]:
        """Return every run of the hub as it stands."""
        names = run_names(self.path)
        if not names:
            words = f"the hub has no run yet: amity federation submit RUN.toml --hub {self.path}"
            return [waiting(self._name, words)]
        newest = set(sorted(names, key=self._changed, reverse=True)[:MOST_RUNS])
        self._records = {name: one for name, one in self._records.items() if name in newest}
        return [self._run(name, now) for name in names if name in newest]

    def _changed(self, name: str) -> int:
        """Return when something was last written about a run: its board, or its contract before there is one."""
        folder = self.path / "runs" / name
        marks = [mark_of(folder / file) for file in (FILE, CONTRACT)]
        return max((mark[2] for mark in marks if mark is not None), default=0)

    def _run(self, name: str, now: float) -> Look:
        folder = self.path / "runs" / name
        try:
            # The contract is needed before there is a board alone; one of another version does not hide the board.
            status = read_status(folder) or run_of(self.path, name).status
        except (AmityError, ValueError, OSError) as error:
            return waiting(name, str(error))
        follower = self._records.setdefault(name, RunFolder(folder / "record", name))
        (found,) = follower.look(now)
        recent = {silo["name"]: silo["recent"] for silo in found.live["silos"]}
        phase, words = _phase(status, self.path, now)
        if holds_run(follower.path) and found.record is None:
            words = "; ".join(filter(None, (words, found.live["words"])))
        board = mark_of(folder / FILE)
        live: LiveRun = {
            **found.live,
            "name": name,
            "phase": phase,
            "words": words,
            "round": status["round"],
            "rounds": status["rounds"],
            "left": found.live["left"] if phase == "running" else None,
            "written": max(found.live["written"], 0.0 if board is None else status["written"]),
            "silos": [_silo(silo, one, recent.get(silo, []), phase, now) for silo, one in status["silos"].items()],
            "log": last_lines(self.path / SERVER_LOG, LOG // 3) + found.live["log"][-LOG:],
        }
        return found._replace(live=live)


def _phase(status: Status, hub: Path, now: float) -> tuple[str, str]:
    phase, words = status["phase"], status["words"]
    if phase in OVER:
        return phase, words
    age = now - status["written"]
    if age > STALE:
        gone = f"nobody has written its board for {age / 60:.0f} min"
        return "dead", f"{gone}: is `amity federation server {hub}` running? the run goes on where it was"
    known = "running" if phase == "running" else "waiting"
    return known, words if phase in ("running", "waiting") else ": ".join(filter(None, (phase, words)))


def _silo(name: str, one: SiloStatus, recent: Scores, phase: str, now: float) -> LiveSilo:
    expected = phase not in OVER and one["step"] not in _SILENT
    return {
        "name": name,
        "state": one["step"],
        "words": one["words"],
        "since": one["since"],
        "seen": one["seen"],
        "health": health(one["seen"], now) if expected else "none",
        "round": one["round"],
        "recent": recent,
    }
