"""The board of a run: what is known of each silo right now, in a file that `status`, pages and people read.

    invited -> approved -> connected -> configured -> training -> uploaded -> evaluated        absent, declined, left

A step is claimed for nobody: each is set when the silo itself has shown it. The file says when it was written, so that
a board that nobody keeps any more does not pass for news.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

from amity.errors import InputError
from amity.federation.presence import LATEST
from amity.hub.room import no_room
from amity.record.files import load_json, replace, to_json

FILE = "status.json"

EVERY = 5.0
"""Seconds after which the board is written anew, though nothing has changed."""

Step = Literal[
    "invited",
    "declined",
    "approved",
    "connected",
    "configured",
    "training",
    "uploaded",
    "evaluated",
    "absent",
    "left",
    "finished",
]

Phase = Literal["queued", "gathering", "running", "waiting", "regrouping", "ended", "incomplete", "failed", "stopped"]
"""`ended` is success and nothing else: `incomplete` ran to its end with fewer than was agreed."""

OVER: tuple[Phase, ...] = ("ended", "incomplete", "failed", "stopped")


class SiloStatus(TypedDict):
    """One silo."""

    step: Step
    since: float  # seconds since 1970
    words: str  # why, where it is absent, declined or in trouble
    round: int  # the last that it took part in
    rounds: int  # in how many
    seen: float | None  # its last sign of life
    skew: float | None  # its clock minus this one's, in seconds
    amity: str | None  # its version
    twice: float | None  # since when two services run under its name, from copies of its kit


class Status(TypedDict):
    """All that `status.json` holds."""

    run: str
    phase: Phase
    words: str
    round: int
    rounds: int  # agreed
    policy: str
    quorum: int
    jobs: int  # how often the run was handed to the network engine
    written: float
    silos: dict[str, SiloStatus]


class Board:
    """Keeps `status.json` of a run up to date. Used as a context: a thread writes it every few seconds."""

    def __init__(self, folder: Path, status: Status) -> None:
        self._file = folder / FILE
        self.status = status
        self._lock = threading.RLock()
        self._over = threading.Event()

    def __enter__(self) -> Board:
        self._thread = threading.Thread(target=self._keep, name="amity-board", daemon=True)
        self._thread.start()
        self.write()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.write()

    def phase(self, phase: Phase, words: str = "") -> None:
        """Say how the run as a whole stands."""
        with self._lock:
            self.status["phase"], self.status["words"] = phase, words
            self.write()

    def silo(self, name: str, step: Step, words: str = "") -> None:
        """Say how a silo stands."""
        with self._lock:
            one = self.status["silos"][name]
            if (one["step"], one["words"]) != (step, words):
                one["step"], one["words"], one["since"] = step, words, time.time()
                self.write()

    def took_part(self, round: int, names: list[str]) -> None:
        """Note a round that is done, and who took part in it."""
        with self._lock:
            self._count(round, names)
            self.write()

    def recount(self, rounds: Iterable[tuple[int, list[str]]]) -> None:
        """Count anew who took part in which rounds, by what is on record: a crash may have come before the board."""
        with self._lock:
            self.status["round"] = 0
            for one in self.status["silos"].values():
                one["round"] = one["rounds"] = 0
            for round, names in rounds:
                self._count(round, names)
            self.write()

    def _count(self, round: int, names: list[str]) -> None:
        self.status["round"] = round
        for name in names:
            one = self.status["silos"][name]
            if one["round"] < round:
                one["round"], one["rounds"] = round, one["rounds"] + 1

    def seen(self, name: str, when: float, sign: Mapping[str, Any]) -> None:
        """Note a silo's sign of life. It says that the silo is there, not that it does what it should."""
        with self._lock:
            one = self.status["silos"][name]
            one["seen"], one["amity"] = when, str(sign.get("amity"))[:40]
            clock = sign.get("time")  # of its own making, like all that it says
            one["skew"] = round(clock - when, 1) if isinstance(clock, int | float) and abs(clock) < LATEST else None
            if one["step"] == "invited" or (one["step"] == "absent" and when > one["since"]):
                self.silo(name, "connected", one["words"])  # why it was absent is news until it does something

    def twice(self, found: Mapping[str, float]) -> None:
        """Note the silos of which two services run at once, and since when."""
        with self._lock:
            now = {name: found.get(name) for name in self.status["silos"]}
            if any(self.status["silos"][name]["twice"] != since for name, since in now.items()):
                for name, since in now.items():
                    self.status["silos"][name]["twice"] = since
                self.write()

    def write(self) -> None:
        """Write the board. Where the disk is full, it is written when there is room: it is to be looked at, no more."""
        with self._lock:
            self.status["written"] = time.time()
            try:
                replace(self._file, to_json(self.status, indent=1))
            except OSError as error:
                if not no_room(error):
                    raise

    def _keep(self) -> None:
        while not self._over.wait(EVERY):
            self.write()


def new_status(
    run: str, invited: tuple[str, ...], rounds: int, policy: str, quorum: int, phase: Phase = "queued"
) -> Status:
    """The status of a run that has not begun."""
    return {
        "run": run,
        "phase": phase,
        "words": "",
        "round": 0,
        "rounds": rounds,
        "policy": policy,
        "quorum": quorum,
        "jobs": 0,
        "written": time.time(),
        "silos": {name: _invited() for name in invited},
    }


def _invited() -> SiloStatus:
    now = time.time()
    return {
        "step": "invited",
        "since": now,
        "words": "",
        "round": 0,
        "rounds": 0,
        "seen": None,
        "skew": None,
        "amity": None,
        "twice": None,
    }


def read_status(folder: Path) -> Status | None:
    """The status of a run; None where it has none yet."""
    if not (folder / FILE).exists():
        return None
    content = load_json(folder / FILE)
    if not isinstance(content, dict) or not {"phase", "silos", "written"} <= content.keys():
        raise InputError(f"{folder / FILE} is no status of a run: remove it, the server writes it anew")
    status: Status = content  # type: ignore[assignment]
    for silo in status["silos"].values():
        silo.setdefault("twice", None)  # a version before did not know of it
    return status
