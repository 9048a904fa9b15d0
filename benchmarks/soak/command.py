"""`amity ...` called in this process, as its users call it, for loading torch takes seconds."""

from __future__ import annotations

import contextlib
import io
import os
import re
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import psutil

from amity.cli import app

ANNOUNCED = re.compile(r"\d+ notes? on data and methods comes? after the results")
"""What a command says before it runs what was planned."""


class Said(NamedTuple):
    """What a command has printed, and its exit code: 1 and a traceback where it broke down, -1 if it was too slow."""

    code: int
    out: str
    err: str

    @property
    def refused(self) -> bool:
        """Whether this is a refusal as it must be: exit code 2, and nothing but lines for the user.

        What is refused late may have announced notes before.
        """
        lines = [line for line in self.err.splitlines() if not ANNOUNCED.fullmatch(line)]
        return self.code == 2 and bool(lines) and all(line.startswith("amity: ") for line in lines)


class TooLong(BaseException):
    """Something has taken more time than it may."""


@contextlib.contextmanager
def within(seconds: float, wall: float | None = None) -> Iterator[None]:
    """Raise TooLong if what is done in this context takes more work than that, or `wall` seconds, by the clock.

    By the clock it is twenty times as much, unless told: others may be at work on the machine.
    """

    def over(number: int, frame: FrameType | None) -> None:
        raise TooLong(f"more than {seconds:.0f} s")

    timers = {signal.SIGPROF: (signal.ITIMER_PROF, seconds), signal.SIGALRM: (signal.ITIMER_REAL, wall or 20 * seconds)}
    before = {number: signal.signal(number, over) for number in timers}
    for timer, most in timers.values():
        signal.setitimer(timer, most)
    try:
        yield
    finally:
        for timer, _ in timers.values():
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def call(folder: Path, *words: str, seconds: float = 60.0, wall: float | None = None) -> Said:
    """Call the command line in a folder."""
    out, err = io.StringIO(), io.StringIO()
    before, argv = Path.cwd(), sys.argv
    code: object = 0
    os.chdir(folder)
    sys.argv = ["amity", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), within(seconds, wall):
            with warnings.catch_warnings():
                app.main()
    except SystemExit as ended:
        code = ended.code
    except TooLong as late:
        code = -1
        err.write(f"it took {late}")
    except BaseException:
        code = 1
        err.write(traceback.format_exc())
    finally:
        sys.argv = argv
        os.chdir(before)
    if code in (128 + signal.SIGINT, 128 + signal.SIGTERM):  # who ends the soak does not mean this command alone
        raise KeyboardInterrupt
    return Said(code if isinstance(code, int) else 1, out.getvalue(), err.getvalue())


def files_of(folder: Path) -> dict[str, bytes | None]:
    """Return every file below a folder with its content, and every folder."""
    return {
        str(item.relative_to(folder)): item.read_bytes() if item.is_file() else None
        for item in sorted(folder.rglob("*"))
    }


@contextlib.contextmanager
def alone_on_disk(folder: Path) -> Iterator[None]:
    """Keep what commands do to this folder: no cache of the user's, no data sets, no internet, short fsyncs."""
    wanted = {
        "HOME": str(folder / "home"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "AMITY_OFFLINE": "1",
        "COLUMNS": "400",
    }
    before = {name: os.environ.get(name) for name in (*wanted, "AMITY_DATA")}
    os.environ.update(wanted)
    os.environ.pop("AMITY_DATA", None)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)


@contextlib.contextmanager
def limited(room: int) -> Iterator[None]:
    """Let this process have so many bytes more than it has: what wants all of the machine fails, and nobody else."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + room, before[1]))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_AS, before)
        yield
