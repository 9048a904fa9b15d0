"""`amity run` as a process of its own, killed with -9 again and again, and resumed until it comes to its end.

A blow is aimed: at a random moment of the process's life, at a moment after its directory is there, or at the very
writing of a checkpoint, of which the folder `checkpoint.new` is the sign. After each blow the directory must be
readable, or not begun; in the end models, rounds, weights and predictions must equal those of a run that nobody has
killed.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from amity import record
from amity.cli import app
from amity.errors import AmityError
from amity.record.directory import CHECKPOINT, LINES, NEW
from benchmarks.soak.runs import found
from benchmarks.soak.tally import Tally

BLOWS, QUICK = 110, 4
MOST = 10  # blows that one run takes
PATIENCE = 900.0  # seconds for one process

RUNS = (
    "fedamp --setting practical --clients 6 --model mlp --engine loop",
    "fedavg --setting practical --clients 6 --model mlp --participation 0.5 --engine memory --robust norm",
    "apple --setting practical --clients 6 --model mlr --val-fraction 0.2 --engine loop",
    "accord --setting practical --clients 6 --model mlp --engine stacked --drop 0.2 --drop-phase after",
    "scaffold --setting dirichlet:alpha=0.3 --clients 6 --model mlp --checkpoint-every 2 --engine loop --safe true",
)
COMMON = "--data synthetic --rounds 10 --epochs 1 --per-silo 40 --workers 1 --no-alone --out"


def soak(tally: Tally, folder: Path) -> None:
    """Strike until there were enough blows."""
    draw = random.Random(f"kills {tally.seed}")
    wanted = QUICK if tally.quick else BLOWS
    number = 0
    while tally.tried < wanted:
        words = [*RUNS[number % len(RUNS)].split(), "--seed", str(number)]
        place = folder / str(number)
        place.mkdir()
        struck(tally, draw, words, place, min(MOST, wanted - tally.tried))
        shutil.rmtree(place)
        number += 1
        print(f"    run {number}: {tally.tried} of {wanted} blows", flush=True)


def struck(tally: Tally, draw: random.Random, words: list[str], place: Path, most: int) -> None:
    """Kill a run and resume it until it comes to its end, then compare it with one that was let alone."""
    begun = time.monotonic()
    if (code := Life(words, place, "whole").end()) != 0:
        tally.fail(f"{' '.join(words)}: does not come to its end ({code}): {said(place)}")
        return
    lasts, out = time.monotonic() - begun, place / "out"
    for blow in range(most + 1):
        aim = "let alone" if blow == most else draw.choices(AIMS, (1, 4, 9))[0]
        run = Life([*words, "--resume"], place, "out", whole=aim == START)
        if aim != "let alone":
            strike(draw, run, aim, out, lasts)
        code = run.end()
        if code == 0:
            if aim != "let alone":
                tally.add("blows that came after the end")
            break
        if code != -9:
            tally.fail(f"{' '.join(words)}: exit code {code} after {blow} blows: {said(place)}")
            return
        tally.tried += 1
        inside = (out / NEW).exists()
        tally.add(f"killed {'inside the write of a checkpoint' if inside else aim}")
        tally.add("directories found after a blow: " + state_of(tally, out))
    tally.add("runs that were killed and came to their end")
    if found(place / "whole") != found(out):
        differ = [key for key, value in found(place / "whole").items() if found(out).get(key) != value]
        tally.fail(f"{' '.join(words)}: another end than without blows: {differ}")


class Life:
    """`amity run` in a process of its own, which has loaded its libraries already unless it is to be a `whole` one."""

    def __init__(self, words: list[str], place: Path, out: str, *, whole: bool = False) -> None:
        arguments = ["run", *words, *COMMON.split(), out]
        if whole:
            with (place / "said").open("wb") as log:
                command = [sys.executable, "-m", "amity", *arguments]
                self._popen = subprocess.Popen(command, cwd=place, stdout=log, stderr=log)
        else:
            self._fork = SERVER.Process(target=_amity, args=(arguments, str(place)))
            self._fork.start()
        self._whole = whole

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return (self._popen.poll() if self._whole else self._fork.exitcode) is not None

    def kill(self) -> None:
        """Strike it."""
        self._popen.kill() if self._whole else self._fork.kill()

    def end(self) -> int | None:
        """Wait for its end; its exit code comes back, None where it does not end."""
        if self._whole:
            return self._popen.wait()
        self._fork.join(PATIENCE)
        if (code := self._fork.exitcode) is None:
            self._fork.kill()
            self._fork.join()
        return code


SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["__main__", "benchmarks.soak.kills"])


def _amity(arguments: list[str], place: str) -> None:
    """Be the command line."""
    os.chdir(place)
    log = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    sys.argv = ["amity", *arguments]
    app.main()


START, BETWEEN, CHECKPOINTS = "at its start", "between two rounds or within one", "right after a checkpoint"
AIMS = (START, BETWEEN, CHECKPOINTS)


def strike(draw: random.Random, run: Life, aim: str, out: Path, lasts: float) -> None:
    """Kill the process, or find it ended."""
    if aim == START:
        until = time.monotonic() + draw.uniform(0.0, 2 * lasts)
        wait(run, lambda: time.monotonic() > until)
    elif aim == BETWEEN:
        before = lines(out)
        wait(run, lambda: lines(out) > before)
        time.sleep(draw.uniform(0.0, max(0.05, lasts / 4)))
    else:
        for _ in range(draw.randrange(1, 4)):
            wait(run, lambda: not (out / NEW).exists())
            wait(run, lambda: (out / NEW).exists())
        time.sleep(draw.choice([0.0, 0.0, 0.0005, 0.001, 0.002, 0.004]))
    run.kill()


def wait(run: Life, what: Callable[[], bool]) -> None:
    """Wait for something, or for the end of the process, looking as often as possible."""
    until = time.monotonic() + PATIENCE
    looked = 0
    while not what() and time.monotonic() < until:
        looked += 1
        if looked % 64 == 0 and run.over:
            return
        time.sleep(0.0001)


def lines(out: Path) -> int:
    """Return the bytes of rounds on disk."""
    try:
        return (out / LINES).stat().st_size
    except OSError:
        return 0


def state_of(tally: Tally, out: Path) -> str:
    """Return what a killed process has left, in words."""
    if not record.begun(out):
        return "not begun"
    try:
        run = record.read(out)
    except AmityError as error:
        tally.fail(f"a killed run cannot be read: {error}")
        return "not readable"
    except Exception as error:
        tally.fail(f"a killed run breaks its reader: {type(error).__name__}: {error}")
        return "not readable"
    if run.summary is not None:
        return "with results"
    return "with a checkpoint" if (out / CHECKPOINT).exists() else "readable, before its first checkpoint"


def said(place: Path) -> str:
    """Return the last words of a process."""
    return " / ".join((place / "said").read_text(errors="replace").strip().splitlines()[-3:])
