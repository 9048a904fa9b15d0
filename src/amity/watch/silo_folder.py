"""A silo's own folder: what crosses, where it stands in each run, its verdicts and its worker's log.

Nothing of it is anybody else's, so the page is for the silo's own machine. What crosses is told by the audit, which
says for every message when it came and went, for which run and round, and how large it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from amity.errors import AmityError
from amity.federation.approvals import runs_offered
from amity.federation.contract_rules import NAME
from amity.record.files import load_json
from amity.report.contents import EventView, Level, LiveRun
from amity.report.view_events import size
from amity.site.ending import ENDED, VERDICT
from amity.watch.look import Look, waiting
from amity.watch.run_folder import LOG
from amity.watch.tail import LineTail, last_lines

AUDIT, PLAN, WORKER_LOG = "audit.jsonl", "plan.json", "worker.log"

MOST = 1 << 20
"""Bytes of an old audit that are read: it tells of every message there ever was."""

FEED = 60

STATES = {
    "received Describe": "invited",
    "sent Described": "approved",
    "declined": "declined",
    "refused": "refused",
    "received Propose": "approved",
    "sent Standing": "configured",
    "received Train": "training",
    "sent Upload": "uploaded",
    "received Measure": "uploaded",
    "sent Measured": "evaluated",
    "sent Left": "left",
    "received Finish": "finished",
}
"""How a silo stands after a message. All others change nothing."""

WORDS = {
    "received Describe": "is asked to take part",
    "sent Described": "says what it holds: names, sizes, classes",
    "declined": "declines",
    "refused": "refuses a contract that does not hold",
    "received Propose": "is shown who takes part",
    "received Train": "round {round} arrives, {size}",
    "sent Upload": "round {round} uploaded, {size}",
    "sent Measured": "round {round} evaluated",
    "sent Failed": "round {round}: it could not answer",
    "sent Left": "has left the run",
    "received Finish": "the run is over",
}
"""Messages in plain words. All others are steps in between."""


class Crossed(NamedTuple):
    """One line of the audit."""

    what: str
    run: str
    round: int
    bytes: int
    words: str
    time: float
    who: str


class Agreed(TypedDict):
    """What is known of a run from its contract."""

    method: str
    rounds: int


class SiloFolder:
    """A silo's state folder that is looked at again and again."""

    def __init__(self, state: Path, name: str) -> None:
        self.path = state
        self._name = name
        self._audit = LineTail(state / AUDIT, MOST)
        self._crossed: list[Crossed] = []
        self._agreed: dict[str, Agreed] = {}

    def look(self, now: float) -> list[Look]:
        """Return every run that the silo knows of as it stands."""
        added = self._audit.look()
        if added.anew:
            self._crossed = []
        self._crossed += [one for raw in added.lines if (one := _crossed(raw)) is not None]
        runs = sorted((self.path / "runs").iterdir()) if (self.path / "runs").is_dir() else []
        names = [folder.name for folder in runs if folder.is_dir() and NAME.fullmatch(folder.name)]
        offered = runs_offered(self.path)
        heard = [one.run for one in self._crossed if NAME.fullmatch(one.run)]
        every = list(dict.fromkeys([*names, *offered, *heard]))
        if not every:
            return [waiting(self._name, "no run has asked this silo yet")]
        return [self._run(name, name in offered, now) for name in every]

    def _run(self, run: str, offered: bool, now: float) -> Look:
        crossed = [one for one in self._crossed if one.run == run]
        folder, trouble = self.path / "runs" / run, ""
        try:
            agreed = self._agreed_on(run)
            ended = load_json(folder / ENDED) if (folder / ENDED).exists() else None
            verdict = load_json(folder / VERDICT) if (folder / VERDICT).exists() else None
            phase, words = _phase(offered, ended, verdict)
        except (AmityError, OSError, ValueError, LookupError, TypeError) as error:
            agreed, phase, words, trouble = None, "running", str(error), str(error)
        done = max((one.round for one in crossed if one.what in ("sent Upload", "sent Measured")), default=0)
        last = next((one for one in reversed(crossed) if one.what in STATES), None)
        who = next((one.who for one in crossed), self._name)
        method = agreed["method"] if agreed else ""
        live: LiveRun = {
            "run": -1,
            "name": f"{run}, at {who}" + (f": {method}" if method else ""),
            "phase": phase,
            "words": words,
            "round": done,
            "rounds": agreed["rounds"] if agreed else 0,
            "begun": crossed[0].time if crossed else None,
            "left": None,
            "written": crossed[-1].time if crossed else 0.0,
            "silos": [
                {
                    "name": who,
                    "state": "invited" if last is None else STATES[last.what],
                    "words": "" if last is None else last.words,
                    "since": None if last is None else last.time,
                    "seen": crossed[-1].time if crossed else None,
                    "health": "none",  # the server listens for signs of life, not the silo
                    "round": done,
                    "recent": [],  # scores are the server's to show
                }
            ],
            "log": last_lines(self.path / WORKER_LOG, LOG),
        }
        return Look(live, _feed(crossed), None, trouble)

    def _agreed_on(self, run: str) -> Agreed | None:
        """What the contract says, which never changes. It is shown, not relied on, whatever version has made it."""
        file = self.path / "runs" / run / PLAN
        if run not in self._agreed and file.exists():
            options = json.loads(load_json(file)["contract"])["contract"]["run"]
            self._agreed[run] = {"method": str(options["method"]), "rounds": int(options["rounds"])}
        return self._agreed.get(run)


def _phase(offered: bool, ended: Any, verdict: Any) -> tuple[str, str]:
    """How a run stands here, and what there is to say."""
    if verdict is not None:
        return "ended", f"verdict: {verdict['words']}"
    if ended is not None:
        left = "this silo has left it" if ended["left"] else "the run is over"
        return "ended", f"{left}; the model alone is trained now, for the verdict"
    if offered:
        return "waiting", "it waits for an approval: amity federation approve RUN --site SITE"
    return "running", ""


def _crossed(raw: bytes) -> Crossed | None:
    """Return a line of the audit; None for what is none: `amity federation audit` says what is wrong with it."""
    try:
        line = json.loads(raw)
        when = datetime.fromisoformat(line["time"]).timestamp()
        what, run, words, who = (str(line[key]) for key in ("what", "run", "words", "who"))
        return Crossed(what, run, int(line["round"]), int(line["bytes"]), words, when, who)
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _feed(crossed: Iterable[Crossed]) -> list[EventView]:
    told: list[EventView] = []
    for one in list(crossed)[-FEED * 4 :]:
        if one.what not in WORDS:
            continue
        level: Level = "warning" if one.what in ("sent Failed", "declined", "refused") else "good"
        words = WORDS[one.what].format(round=one.round, size=size(one.bytes))
        told.append(
            {
                "time": one.time,
                "round": one.round,
                "silo": one.who,
                "level": level,
                "words": f"{one.who}: {words}" + (f": {one.words}" if one.words else ""),
            }
        )
    return told[-FEED:]
