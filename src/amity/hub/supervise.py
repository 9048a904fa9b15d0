"""The supervisor: it keeps every run of a hub going, over lost processes, silos, servers and restarts.

A run is handed to the network engine as a job. A job that has ended, or has lost a silo for good, is handed in again,
and goes on where the last one was: no round is trained twice. Silos that come back, or are new, are taken in at the end
of a round. After as many failures as the contract allows a run is given up, with an account of the last one.

A silo works for one run at a time, so that runs with a silo in common go one after the other, the older first. Two at
once would each get hold of some silos, and wait for the rest for ever. Runs without one in common go on side by side.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from amity.errors import AmityError, InputError, LostWorker
from amity.hub import requests
from amity.hub.board import OVER, Board, Phase
from amity.hub.presence import twice
from amity.hub.runs import HubRun, run_names, run_of

LOOKS = 2
"""So many looks in a row must agree before a job is given up: a silo that is just starting has none yet."""

IDLE = 15.0
"""Seconds that silos must be there without being at work, before a job is given up: the server still believes in one
that is gone for almost as long, and there is nothing to take in then."""

STALE = 20.0
"""Seconds after which a board that nobody writes is nobody's."""

START = 60.0
"""Seconds that a new job has until its silos must be at work. One that was at work in it already has no such time."""

_log = logging.getLogger("amity.supervisor")


class Engine(Protocol):
    """The network engine, as the supervisor sees it. Each raises LostWorker where the server cannot be asked."""

    def submit(self, run: str, silos: list[str], least: int, number: int) -> str: ...

    def over(self, job: str) -> bool: ...

    def abort(self, job: str) -> None: ...

    def connected(self) -> set[str]: ...

    def working(self, job: str) -> set[str]: ...


class Supervisor:
    """Looks after the runs of a hub; `look` is called every few seconds."""

    def __init__(
        self,
        hub: Path,
        engine: Engine,
        *,
        say: Callable[[str], None] = _log.info,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._hub = hub
        self._engine = engine
        self._say = say
        self._now = now
        self._begun: dict[str, float] = {}  # when a run's job was handed in by this process
        self._idle: dict[
            str, tuple[frozenset[str], int, float]
        ] = {}  # silos not at work, for how many looks, since when
        self._worked: dict[str, set[str]] = {}  # silos that were seen at work in a job, by job
        self._gone: dict[str, set[str]] = {}  # silos that were not connected at some time of a job, by job
        self._told: dict[str, str] = {}

    def look(self) -> None:
        """Look after every run that is not over."""
        open_runs = self._open_runs()
        if not open_runs:
            return
        try:
            connected = self._engine.connected()
        except LostWorker as error:
            self._tell("server", f"the server cannot be asked yet: {error}")
            return
        self._tell("server", "")
        for run in open_runs:
            try:
                self._tend(run, connected, [other for other in open_runs if other.name != run.name])
            except LostWorker as error:  # asked again at the next look
                _log.info("run %s: %s", run.name, error)
            except AmityError as error:
                self._close(run, "failed", str(error))
            except Exception:  # a fault in what one run has left ends no other, nor the server
                _log.exception("run %s", run.name)
                self._tell(run.name, f"run {run.name} cannot be looked after: the log says why")

    def _open_runs(self) -> list[HubRun]:
        """Runs that are not over, the oldest first.

        One whose files cannot be read is told of, and keeps no other from going on.
        """
        found = []
        for name in run_names(self._hub):
            try:
                run = run_of(self._hub, name)
                if run.status["phase"] not in OVER:
                    found.append(run)
                self._tell(f"files of {name}", "")
            except InputError as error:
                self._tell(f"files of {name}", f"run {name}: {error}")
        return sorted(found, key=lambda run: run.submitted)

    def _tend(self, run: HubRun, connected: set[str], others: Sequence[HubRun]) -> None:
        job = run.job
        if job["id"] is None:
            if requests.asked(run.folder, "stop"):
                self._close(run, "stopped", "it was stopped before it began anew")
            else:
                self._start(run, connected, others)
        elif self._engine.over(job["id"]):
            self._ended(run)
        elif run.name not in self._begun:  # it is of a server that is gone, and all that it had started with it
            self._engine.abort(job["id"])
            self._failed(run, "the server was started again")
        else:
            self._watch(run, connected)

    def _start(self, run: HubRun, connected: set[str], others: Sequence[HubRun]) -> None:
        """Hand a run in when enough silos are there, and none of them is at work for another run."""
        contract, job = run.contract, run.job
        wanted = [name for name in contract.invited if run.status["silos"][name]["step"] != "left"]
        there = [name for name in wanted if name in connected]
        needed = len(wanted) if contract.policy == "wait" else min(contract.quorum, len(wanted))
        missing = [name for name in wanted if name not in connected]
        before = [other for other in others if other.job["id"] is not None and set(wanted) & set(other.job["silos"])]
        words = [f"waiting for {', '.join(missing)} to connect"] if missing else []
        words += [_behind(before[0], wanted)] if before else []
        self._tell(run.name, f"run {run.name}: {'; '.join(words)}" if words else "")
        self._note(run, connected, "queued", "; ".join(words))
        if before:
            return
        if len(there) < max(1, needed):
            self._wait(run, missing)
            return
        requests.clear(run.folder, "regroup")  # all that are there are in it
        number = job["number"] + 1
        handed = self._engine.submit(run.name, there, max(1, needed), number)
        run.remember({**job, "id": handed, "number": number, "silos": there, "waiting": None})
        self._begun[run.name] = self._now()
        self._idle.pop(run.name, None)
        self._say(f"run {run.name}: handed in for the {_nth(number)} time, to {', '.join(there)}")

    def _wait(self, run: HubRun, missing: Sequence[str]) -> None:
        """Wait for silos without whom no job can be made, for as long as the contract says."""
        job, now = run.job, self._now()
        since = now if job["waiting"] is None else job["waiting"]
        if job["waiting"] is None:
            run.remember({**job, "waiting": since})
        elif now - since > run.contract.limits.absence:
            names = ", ".join(missing)
            self._close(run, "failed", f"waited {now - since:.0f} s, which is the limit, for {names} to connect")

    def _watch(self, run: HubRun, connected: set[str]) -> None:
        """See whether the silos of a job that is under way are at work in it."""
        job, status = run.job, run.status
        assert job["id"] is not None
        invited = set(run.contract.invited)
        there = {name for name in invited & connected if status["silos"][name]["step"] not in ("left", "declined")}
        working = self._engine.working(job["id"])
        worked = self._worked.setdefault(job["id"], set())
        worked |= working
        idle = frozenset(there - working)
        gone = self._gone.setdefault(job["id"], set())
        gone |= invited - connected
        lasting = self._lasting(run.name, idle, surely_there=idle <= gone)
        young = self._now() - self._begun[run.name] < START
        nobody = self._now() - status["written"] > STALE and not young  # loading takes its time
        if status["phase"] == "regrouping":
            if nobody:  # it ends too slowly
                self._engine.abort(job["id"])
                run.remember({**job, "id": None})
            return
        if not idle or not (lasting or nobody) or (young and not idle & worked):
            return
        names = " and ".join(sorted(idle))
        if nobody or run.contract.policy == "wait":
            self._say(f"run {run.name}: {names} cannot rejoin its job, which is handed in again")
            self._engine.abort(job["id"])
            self._failed(run, f"lost {names}")
        elif not requests.asked(run.folder, "regroup"):
            self._say(f"run {run.name}: {names} is back or new, and is taken in after this round")
            requests.ask(run.folder, "regroup")

    def _lasting(self, name: str, idle: frozenset[str], *, surely_there: bool) -> bool:
        """Whether the same silos of a run are idle for long enough; `surely_there`: they have connected meanwhile."""
        now = self._now()
        before, looks, since = self._idle.get(name, (idle, 0, now))
        looks, since = (looks + 1, since) if idle == before else (1, now)
        self._idle[name] = idle, looks, since
        return looks >= LOOKS and (surely_there or now - since >= IDLE)

    def _ended(self, run: HubRun) -> None:
        """Hand a job that has ended before its run in again."""
        status = run.status
        if status["phase"] == "regrouping":
            run.remember({**run.job, "id": None})
        else:
            self._failed(run, status["words"] or f"its job ended while {status['phase']}")

    def _failed(self, run: HubRun, words: str) -> None:
        job, most, done = run.job, run.contract.limits.failures, run.status["round"]
        failures = 1 if done > job["round"] else job["failures"] + 1
        run.remember({**job, "id": None, "failures": failures, "round": done})
        if failures > most:
            self._close(run, "failed", f"given up after {failures} failures, the last one: {words}")
        else:
            self._say(f"run {run.name}: {words}; it goes on where it was ({failures} of {most} failures)")

    def _close(self, run: HubRun, phase: Phase, words: str) -> None:
        """End a run that no job is conducting."""
        board = Board(run.folder, run.status)
        board.phase(phase, words)
        self._say(f"run {run.name}: {phase}, {words}")

    def _note(self, run: HubRun, connected: set[str], phase: Phase, words: str) -> None:
        """Keep the board while no job does."""
        board = Board(run.folder, run.status)
        for name, silo in board.status["silos"].items():
            if name in connected and silo["step"] in ("invited", "absent"):
                board.silo(name, "connected")
            elif name not in connected and silo["step"] not in ("invited", "left", "finished"):
                board.silo(name, "absent", silo["words"] or "it is not connected")
        board.twice(twice(self._hub))
        board.phase(phase, words)

    def _tell(self, about: str, words: str) -> None:
        """Say something once, not at every look."""
        if self._told.get(about, "") != words:
            self._told[about] = words
            if words:
                self._say(words)


def _behind(other: HubRun, wanted: Sequence[str]) -> str:
    """Say that a run waits for another one, why that one has its silos, and what that one waits for itself."""
    silos = other.status["silos"]
    common = [name for name in wanted if name in other.job["silos"]]
    words = f"waiting for the end of run {other.name}, which has {', '.join(common)}"
    undecided = [name for name, silo in silos.items() if silo["step"] == "declined"]
    if other.status["phase"] == "gathering" and undecided:
        words += f" and itself waits for {', '.join(undecided)} to approve it; approve it there, or stop it"
    return words


def _nth(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")
