"""Striking a federation that is at work: which processes there are, when to strike, and what must hold at the end."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import torch
from safetensors.torch import load_file

import amity
from amity.config.run import Run
from amity.data import Silos
from amity.engines.flare.trial import Trial, names_of, renamed
from amity.hub.board import OVER, Status
from amity.hub.runs import HubRun
from amity.prepare import silos_of
from amity.record import read
from amity.result import Result

RUN = Run("scaffold", data="digits", clients=3, rounds=4, epochs=800, engine="loop", model="mlp")
"""Turns of a second or so; a method for which a round too many shows in every model."""

STRUCK = 2
"""The round that a strike comes into: one is done, which must not be lost, and others are to follow."""


@cache
def simulated() -> Result:
    """What comes out where nobody strikes."""
    return amity.run(RUN, silos())


@cache
def silos() -> Silos:
    """Three silos."""
    return renamed(silos_of(RUN), names_of(3))


def trial_in(folder: Path, **how: Any) -> Trial:
    """A federation of these silos; nothing is started yet."""
    return Trial(folder / "trial", silos(), **how)


def wait_until(what: Callable[[], bool], seconds: float = 240.0, *, pause: float = 0.05) -> float:
    """Wait until something is so, and look after each pause; the seconds that it took come back."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < seconds, "it has not come"
        time.sleep(pause)
    return time.monotonic() - began


def in_round(run: HubRun, number: int, silo: str | None = None, *, into: float = 0.2) -> None:
    """Wait until a silo, or whoever, is training in this round, and so many seconds longer."""

    def training() -> bool:
        status = run.status
        assert status["phase"] not in OVER, f"it is {status['phase']} ({status['words']}) too early"
        steps = [one["step"] for name, one in status["silos"].items() if silo in (None, name)]
        return status["round"] == number - 1 and "training" in steps

    wait_until(training)
    time.sleep(into)


@contextmanager
def held_back(trial: Trial, name: str) -> Iterator[psutil.Process]:
    """Keep a silo from answering meanwhile: its worker is frozen. No machine is then too quick, or too busy, for what
    is to come before the answer."""
    process = worker(trial, name)
    process.suspend()
    try:
        yield process
    finally:
        with suppress(psutil.NoSuchProcess):  # the strike may have taken it
            process.resume()


def family(trial: Trial, *names: str) -> list[psutil.Process]:
    """The processes of these services, all that they have started included."""
    found = []
    for name in names:
        first = psutil.Process(trial.pid(name))
        found += [first, *first.children(recursive=True)]
    return found


def gone(processes: Iterable[psutil.Process], seconds: float = 10.0) -> None:
    """Wait until these have ended."""
    alive = psutil.wait_procs(list(processes), timeout=seconds)[1]
    assert not alive, [process.cmdline() for process in alive]


def the(word: str, among: Iterable[psutil.Process]) -> psutil.Process:
    """The one process with this word in its command line."""
    (found,) = [process for process in among if any(word in part for part in process.cmdline())]
    return found


def worker(trial: Trial, name: str) -> psutil.Process:
    """The process in which a silo trains."""
    return the("amity.site.worker", family(trial, name))


def job(trial: Trial, name: str) -> psutil.Process:
    """FLARE's process of a job, at the server or at a silo."""
    return the("runner_process" if name == "server" else "worker_process", family(trial, name))


def kill(processes: Iterable[psutil.Process], how: int = signal.SIGKILL) -> None:
    """Send a signal to all of these, one right after the other."""
    for process in processes:
        try:
            os.kill(process.pid, how)
        except ProcessLookupError:
            pass


def end_service(trial: Trial, name: str) -> None:
    """Kill a whole service, nothing of which may do anything any more."""
    processes = family(trial, name)
    kill(processes, signal.SIGSTOP)  # or one would start another again
    kill(processes)
    trial.end(name)
    gone(processes[1:])


def next_round(run: HubRun, number: int, seconds: float = 240.0) -> float:
    """Wait until this round is done; the seconds that it took come back."""
    return wait_until(lambda: run.status["round"] >= number, seconds)


def turns(trial: Trial, name: str, run: str) -> dict[int, int]:
    """How often a silo has trained each round to its end, by what its worker says when a turn is on disk."""
    text = (trial.folder / f"{name}-state" / "worker.log").read_text()
    found = re.findall(rf"run {run}, state: round (\d+) is trained and saved", text)
    return dict(Counter(map(int, found)))


def check_as_if_nothing_happened(trial: Trial, run: HubRun, status: Status) -> None:
    """Require the models and the record of a simulation, and that no silo has trained a round twice."""
    assert status["phase"] == "ended", status["words"]
    expected = simulated()
    for name in trial.names:
        found, wanted = (
            load_file(trial.results(name, run.name) / "model.safetensors"),
            expected.model(name).state_dict(),
        )
        assert all(torch.equal(found[key], value) for key, value in wanted.items()), name
        assert turns(trial, name, run.name) == dict.fromkeys(range(1, RUN.rounds + 1), 1), name
    lines = read(run.folder / "record").lines
    assert [(line["round"], line["mean"], line.get("took_part")) for line in lines] == [
        (line["round"], line["mean"], line.get("took_part")) for line in expected.lines
    ]
    told = [event["round"] for event in events(run) if event["what"] == "recorded"]
    assert told == list(range(1, RUN.rounds + 1)), "each round is told once, though several jobs have told of it"


def events(run: HubRun) -> list[dict[str, Any]]:
    """All that is told of a run."""
    return [json.loads(line) for line in (run.folder / "record" / "events.jsonl").read_text().splitlines()]


def check_nothing_left(trial: Trial, processes: Iterable[psutil.Process]) -> None:
    """Require that none of these lives, and that nobody holds a lock."""
    alive = [process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    assert not alive, [process.cmdline() for process in alive]
    for lock in trial.folder.rglob("lock"):
        assert not locked(lock), lock


def locked(file: Path) -> bool:
    """Whether somebody holds a lock on a file."""
    import fcntl

    with file.open("rb") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
